"""The machine is taken as told; what was not told is looked up, and never guessed to be a CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.draft.target import Target, find_target, known_gpus
from bench.errors import BenchError, EnvironmentFault
from bench.gpus import TABLE
from bench.sweep.expand import MachineFacts

Look = Callable[[set[str]], MachineFacts]


def finds(device: str, gpus: int = 0, bf16: bool = True) -> Look:
    return lambda asked: MachineFacts("cuda" if device == "cuda" else "cpu", gpus, bf16)


def fails(asked: set[str]) -> MachineFacts:
    raise EnvironmentFault("This machine has a GPU that torch cannot use.")


def must_not_look(asked: set[str]) -> MachineFacts:
    raise AssertionError("looked at the machine, which may take seconds, without need")


def test_machine_is_looked_at_when_nothing_is_told() -> None:
    assert find_target(None, None, None, finds("cpu")) == Target("cpu", 0, is_here=True)
    assert find_target(None, None, None, finds("cuda", 4, bf16=False)) == Target(
        "cuda", 4, has_ampere=False, is_here=True
    )


def test_named_kind_needs_no_look_and_is_one_gpu_unless_told() -> None:
    assert find_target(None, "v100-32gb", None, must_not_look) == Target("cuda", 1, "v100-32gb", has_ampere=False)
    assert find_target("cuda", "h100-80gb", 8, must_not_look) == Target("cuda", 8, "h100-80gb")


def test_cpu_needs_no_look() -> None:
    assert find_target("cpu", None, None, must_not_look) == Target("cpu", is_here=True)


@pytest.mark.parametrize(("kind", "gpus"), [("a100-80gb", None), (None, 2), ("a100-80gb", 2)])
def test_cpu_takes_no_gpus(kind: str | None, gpus: int | None) -> None:
    with pytest.raises(BenchError, match="--device cpu takes no GPU"):
        find_target("cpu", kind, gpus, must_not_look)


def test_number_of_gpus_takes_the_kind_that_is_here() -> None:
    """Eight asked for where two old ones are: old ones, on another machine."""
    assert find_target(None, None, 8, finds("cuda", 2, bf16=False)) == Target("cuda", 8, has_ampere=False)
    assert find_target(None, None, 2, finds("cuda", 2)) == Target("cuda", 2, is_here=True)


@pytest.mark.parametrize("look", [finds("cpu"), fails])
def test_number_of_gpus_is_enough_where_there_is_none(look: Look) -> None:
    """A file for another machine needs no GPU here; `bench plan --gpus` takes as many modes for granted."""
    assert find_target(None, None, 8, look) == Target("cuda", 8)


def test_gpu_that_cannot_be_used_is_no_cpu() -> None:
    """The way out is to name the machine that is meant."""
    with pytest.raises(EnvironmentFault, match=r"torch cannot use. To write for another machine, name it: --gpu"):
        find_target(None, None, None, fails)


@pytest.mark.parametrize(("kind", "advice"), [("a100", "Did you mean a100-80gb"), ("b9", "Use one of these")])
def test_unknown_kind_is_answered_with_those_there_are(kind: str, advice: str) -> None:
    with pytest.raises(BenchError, match=f"--gpu = {kind} is not one of .*a100-40gb, .*{advice}"):
        find_target(None, kind, None, must_not_look)


def test_every_kind_that_is_known_can_be_named() -> None:
    assert set(known_gpus()) == {gpu.key for gpu in TABLE}
    before_ampere = {kind for kind, has_ampere in known_gpus().items() if not has_ampere}
    assert before_ampere == {gpu.key for gpu in TABLE if gpu.architecture in ("Volta", "Turing")}
    assert "v100-32gb" in before_ampere
