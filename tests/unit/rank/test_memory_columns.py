"""The peak divided: its parts add up, and follow the sizes that theory gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.measure.device import MemoryPeaks, PeakParts, Witnessed
from bench.rank.columns import facts_before
from bench.rank.memory_columns import divide_peak, memory_columns, why_memory_is_wrong
from bench.rank.protocol import FULL_ROWS, run_protocol
from bench.record.columns.memory import PARTS_OF_THE_PEAK
from tests.small_launch import build, columns_and_witnessed, columns_of

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.mark.slow
def test_parts_add_up_to_the_peak_under_any_settings() -> None:
    """To the byte, and none is negative; what lives throughout is all there at the peak."""

    @settings(max_examples=12)
    @given(
        preset=st.sampled_from(["gpt2-nano", "llama-nano"]),
        amp_mode=st.sampled_from(["fp32", "bf16", "fp16"]),
        optimizer=st.sampled_from(
            [("adamw", "for_loop"), ("adamw", "foreach"), ("adamw", "fused"), ("sgd", "default")]
        ),
        checkpointing=st.booleans(),
        micro_batch_size=st.integers(1, 3),
        accumulation_steps=st.integers(1, 3),
        clip_norm=st.sampled_from([None, 1.0]),
        window_mode=st.sampled_from(["buffered", "streamed"]),
    )
    def holds(
        preset: str, optimizer: tuple[str, str], checkpointing: bool, micro_batch_size: int, **config: Any
    ) -> None:
        name, implementation = optimizer
        betas = {"beta1": 0.9, "beta2": 0.95} if name == "adamw" else {"momentum": 0.9}
        columns = columns_of(
            build(
                micro_batch_size,
                model={"preset": preset},
                activation_checkpointing=checkpointing,
                optimizer={"name": name, "lr": 0.01, "implementation": implementation, **betas},
                **config,
            )
        )
        assert sum(columns[part] for part in PARTS_OF_THE_PEAK) == columns["peak_allocated_bytes"]
        assert min(columns[part] for part in PARTS_OF_THE_PEAK) >= 0
        assert columns["gradient_at_peak_bytes"] <= columns["gradient_bytes"] == columns["parameter_bytes"]
        assert columns["parameter_bytes"] == 4 * columns["parameters_unique"]
        assert columns["unwitnessed_bytes"] == 0
        assert columns["peak_phase"] in ("forward", "backward", "update")
        assert why_memory_is_wrong(columns) is None

    holds()


def test_witness_finds_what_lives_throughout_by_itself() -> None:
    """The columns of sizes and the storages seen at the peak are two accounts of the same bytes."""
    bench = build()
    columns, _, witnessed = columns_and_witnessed(bench)
    (told,) = witnessed.updates
    assert told.parts is not None
    assert told.parts.model_bytes == sum(4 * parameter.numel() for parameter in bench.model.parameters())
    assert told.parts.optimizer_state_bytes == columns["optimizer_state_bytes"]


LARGE = {"seq_len": 128, "data": {"synthetic": {"documents": 1000, "mean_tokens": 150}, "rows": "packed"}}
"""At this size the peak is in the backward, among the logits."""


@pytest.mark.slow
def test_activations_grow_with_the_micro_batch_and_nothing_else_does() -> None:
    """Twice the sequences, twice the bytes kept for the backward; beside them only temporaries grow."""
    small, large = (columns_of(build(size, 1, **LARGE)) for size in (4, 8))
    assert small["peak_phase"] == large["peak_phase"] == "backward"
    assert large["activation_bytes"] / small["activation_bytes"] == pytest.approx(2, rel=0.002)
    for name in ("parameter_bytes", "gradient_at_peak_bytes", "optimizer_state_bytes", "ddp_bucket_bytes"):
        assert small[name] == large[name]


def test_optimizer_state_is_two_moments_and_a_count() -> None:
    """AdamW in float32: 8 bytes an element, and 4 for each tensor's step count; SGD without momentum has none."""
    adamw = columns_of(build())
    tensors = len(list(build().model.parameters()))
    assert adamw["optimizer_state_bytes"] == 8 * adamw["parameters_trainable"] + 4 * tensors
    assert columns_of(build(optimizer={"name": "sgd", "lr": 0.1}))["optimizer_state_bytes"] == 0


@pytest.mark.slow
def test_accumulation_costs_the_gradients_at_the_peak_and_no_more_than_that() -> None:
    """At one step the peak comes before any gradient exists; from two steps on they all do; more steps cost nothing."""
    one, two, three, many = (columns_of(build(8, steps, window_mode="streamed", **LARGE)) for steps in (1, 2, 3, 6))
    assert one["gradient_at_peak_bytes"] < 0.05 * one["gradient_bytes"]
    assert two["gradient_at_peak_bytes"] == two["gradient_bytes"]
    tokens = 8 * 128 * 2 * 8  # the micro-batch read ahead, inputs and targets, which on a CPU lives beside the tensors
    added = two["peak_allocated_bytes"] - one["peak_allocated_bytes"]
    assert abs(added - (two["gradient_bytes"] - one["gradient_at_peak_bytes"])) <= tokens
    assert 0 <= three["peak_allocated_bytes"] - two["peak_allocated_bytes"] <= tokens
    assert many["peak_allocated_bytes"] == three["peak_allocated_bytes"]


@pytest.mark.slow
def test_checkpointing_lowers_activations_alone() -> None:
    """What lives throughout is the same."""
    plain, checkpointed = (
        columns_of(build(8, 1, model={"preset": "gpt2-tiny"}, activation_checkpointing=on, **LARGE))
        for on in (False, True)
    )
    assert checkpointed["activation_bytes"] < plain["activation_bytes"]
    assert checkpointed["optimizer_state_bytes"] == plain["optimizer_state_bytes"]


MILLION = 1_000_000


def with_counters(
    peaks: dict[str, int] | None = None,
    phase: str = "backward",
    witnessed: int = MILLION - 500,
    witnessed_phase: str = "backward",
) -> dict[str, Any]:
    """Give the columns of a device with counters that tell so many requested bytes, of which the witness saw some.

    Args:
        peaks: Requested bytes of the parts of a name; of all others a million. Of each 7 more were allocated.
        phase: Where the update of full rows peaked.
        witnessed: Most bytes that the witness saw.
        witnessed_phase: Where it saw them.
    """
    bench = build()
    facts, observed = facts_before(bench), run_protocol(bench)
    for part in observed.parts:
        asked = (peaks or {}).get(part.name, MILLION)
        object.__setattr__(part, "peaks", MemoryPeaks(asked + 7, asked + 8, asked + 9, 3, asked))
    full_rows = list(observed.part("memory"))[FULL_ROWS].peaks.requested_bytes
    object.__setattr__(observed, "peak_phase", (phase, full_rows))
    columns = facts | memory_columns(bench, observed)
    lasting = columns["parameter_bytes"] + columns["optimizer_state_bytes"]
    parts = PeakParts(witnessed_phase, lasting, 10, 0, 20, 30, witnessed - lasting - 60)
    return columns | dict.fromkeys(PARTS_OF_THE_PEAK[-3:]) | divide_peak(columns, Witnessed(witnessed, 0, parts))


def test_with_counters_what_the_witness_missed_is_temporary() -> None:
    """The counters' peak is the row's, and was reached when nobody watched; scratch is kept apart too."""
    columns = with_counters()
    assert columns["peak_requested_bytes"] == MILLION
    assert (columns["peak_allocated_bytes"], columns["allocator_rounding_bytes"]) == (MILLION + 7, 7)
    assert (columns["gradient_at_peak_bytes"], columns["activation_bytes"], columns["ddp_bucket_bytes"]) == (10, 20, 30)
    assert sum(columns[part] for part in PARTS_OF_THE_PEAK) == MILLION
    assert columns["unwitnessed_bytes"] == 500
    assert columns["peak_phase"] == "backward"
    assert columns["peak_inactive_split_bytes"] == 3
    assert columns["first_update_peak_reserved_bytes"] == MILLION + 9


@pytest.mark.parametrize(
    ("told", "phase"),
    [
        ({"witnessed_phase": "forward"}, "backward"),
        ({"witnessed": MILLION + 1}, "backward"),
        ({"peaks": {"timed": MILLION + 1}}, None),
    ],
)
def test_peak_of_another_moment_is_not_divided(told: dict[str, Any], phase: str | None) -> None:
    """The witness was highest in another phase, or saw more than there was, or the timed part went higher."""
    columns = with_counters(**told)
    assert columns["peak_requested_bytes"] == MILLION + ("peaks" in told)
    assert [columns.get(name) for name in (*PARTS_OF_THE_PEAK[-3:], "gradient_at_peak_bytes")] == [None] * 4
    assert columns["peak_phase"] == phase


def test_witness_decides_no_peak_of_a_device_with_counters() -> None:
    """Only a CPU, which has none, takes the witness's."""
    assert with_counters(witnessed=MILLION + 1)["peak_allocated_bytes"] == MILLION + 7
    bench = build()
    observed = run_protocol(bench)
    assert memory_columns(bench, observed)["peak_allocated_bytes"] is None
    assert columns_of(build())["peak_allocated_bytes"] > 0


SOUND = {
    "parameter_bytes": 10,
    "gradient_bytes": 10,
    "optimizer_state_bytes": 20,
    "peak_requested_bytes": 45,
    "peak_allocated_bytes": 50,
    "peak_active_bytes": 60,
    "peak_reserved_bytes": 70,
    "device_capacity_bytes": 80,
}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "peak_requested_bytes",
            39,
            "the peak of 39 B is less than the 40 B of parameters, gradients and optimizer state",
        ),
        ("peak_allocated_bytes", 44, "peak_requested_bytes = 45 exceeds peak_allocated_bytes = 44"),
        ("peak_active_bytes", 49, "peak_allocated_bytes = 50 exceeds peak_active_bytes = 49"),
        ("peak_reserved_bytes", 59, "peak_active_bytes = 60 exceeds peak_reserved_bytes = 59"),
        ("device_capacity_bytes", 69, "peak_reserved_bytes = 70 exceeds device_capacity_bytes = 69"),
    ],
)
def test_counters_that_contradict_each_other_are_named(name: str, value: int, said: str) -> None:
    """Case 41: allocated <= active <= reserved <= capacity. Case 47: a peak that was reset holds only what came after.

    https://github.com/pytorch/pytorch/issues/37250 https://github.com/flagos-ai/Torch-FL/pull/364
    """
    assert why_memory_is_wrong(SOUND) is None
    assert said in str(why_memory_is_wrong(SOUND | {name: value}))
    assert why_memory_is_wrong(SOUND | {name: None}) is None
