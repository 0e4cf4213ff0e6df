"""What the oracle and `bench check` say of one step's source."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from bench.check.exchange.lines import Line, overall
from tests.checked import checklist_of_step
from tests.wrong_steps.oracle import LAYOUTS, is_right
from tests.wrong_steps.ranks import Alone, on_ranks

ON_RANKS = "on_ranks"
"""The right step that is run on two ranks too."""


@dataclass(frozen=True)
class Judged:
    """State what was found about one step."""

    is_equivalent: bool
    verdict: str
    """Of `bench check`, over all lines."""
    words: str
    """The line that decided it."""


def load(source: str, dist: Any) -> Callable[..., Any]:
    """Run a module's source and give its step."""
    names: dict[str, Any] = {}
    exec(compile(source, "mutant.py", "exec"), names)
    names["dist"] = dist
    step: Callable[..., Any] = names["step"]
    return step


def world_sizes_of(origin: str) -> tuple[int, ...]:
    """Give the numbers of ranks that a step is for."""
    return (1, 2) if origin == ON_RANKS else (1,)


def equivalent(source: str, origin: str, layouts: int = LAYOUTS) -> bool:
    """Ask the oracle."""
    with _quiet():
        return is_right(lambda dist: load(source, dist), world_sizes_of(origin), layouts)


def checked(source: str, origin: str) -> tuple[str, str]:
    """Ask `bench check`: its verdict, and the first line that has it."""
    with _quiet():
        lines = list(checklist_of_step(load(source, Alone())).values())
        for size in world_sizes_of(origin)[1:]:
            if overall(lines) == "PASS":
                lines = list(
                    on_ranks(size, lambda rank, dist, size=size: _on_rank(source, dist, size, rank))[0].values()
                )
    verdict = overall(lines)
    first = next((line for line in lines if line.verdict == verdict), Line("runs", "NOT PROVEN", None, "nothing"))
    return verdict, f"{first.name}: {first.words}"


def _on_rank(source: str, dist: Any, size: int, rank: int) -> dict[str, Line]:
    return checklist_of_step(load(source, dist), world_size=size, rank=rank)


def ask(mutant: tuple[str, str]) -> bool:
    """Ask the oracle of (source, right step) in a process of its own."""
    torch.set_num_threads(1)
    return equivalent(*mutant)


def check(mutant: tuple[str, str]) -> tuple[str, str]:
    """Ask `bench check` of (source, right step) in a process of its own."""
    torch.set_num_threads(1)
    return checked(*mutant)


@contextlib.contextmanager
def _quiet() -> Any:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
