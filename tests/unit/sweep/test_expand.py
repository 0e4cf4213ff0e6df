"""A sweep becomes trials: every combination once, with the arithmetic of the batch exact."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import SweepFileError
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.fields import SweepSpec
from bench.sweep.trial import Search, Skipped, Sweep, Trial

CPU = MachineFacts("cpu", 0)
GPUS = MachineFacts("cuda", 8)

AXIS_VALUES: dict[str, list[Any]] = {
    "micro_batch_size": [1, 2, 3, 4, 8, 12],
    "world_size": [1, 2, 3, 4],
    "amp_mode": ["fp32", "tf32", "bf16", "fp16"],
    "param_dtype": ["fp32", "bf16", "fp16"],
    "data.rows": ["ragged", "padded", "packed"],
    "optimizer.name": ["adamw", "sgd"],
    "seed": [0, 1, 2],
    "activation_checkpointing": [False, True],
    "model": [{"preset": "gpt2-nano"}, {"preset": "llama-nano"}],
    "gradient_sync": ["last", "every"],
}
AXES = st.lists(st.sampled_from(sorted(AXIS_VALUES)), min_size=1, max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries(
        {name: st.lists(st.sampled_from(AXIS_VALUES[name]), min_size=1, max_size=3, unique_by=repr) for name in names}
    )
)
BASES = st.one_of(
    st.fixed_dictionaries({"global_batch_size": st.integers(1, 64)}),
    st.fixed_dictionaries({"accumulation_steps": st.integers(1, 16)}),
)
FACTS = st.builds(MachineFacts, st.sampled_from(["cpu", "cuda"]), st.integers(0, 4), st.booleans())


def sweep_of(base: dict[str, Any], axes: dict[str, Any], **more: Any) -> Sweep:
    spec = SweepSpec.model_validate({"format": 1, "name": "s", "base": base, "axes": axes, **more})
    return Sweep("s", None, "", spec, tuple(axes), "")


def only(base: dict[str, Any], facts: MachineFacts = CPU) -> Trial | Skipped:
    (entry,) = expand(sweep_of(base, {}), facts)
    return entry


@given(BASES, AXES, FACTS)
def test_trials_and_skips_together_are_the_product_of_the_axes(
    base: dict[str, Any], axes: dict[str, list[Any]], facts: MachineFacts
) -> None:
    """No combination is lost, made twice or out of order, on any machine."""
    entries = expand(sweep_of(base, axes), facts)
    assert len(entries) == math.prod(len(values) for values in axes.values())
    assert len({entry.trial_id for entry in entries}) == len(entries)
    positions = [tuple(axes[name].index(value) for name, value in entry.axis_values) for entry in entries]
    assert positions == sorted(positions)


@given(BASES, AXES, FACTS)
def test_the_batch_of_every_trial_multiplies_out(
    base: dict[str, Any], axes: dict[str, list[Any]], facts: MachineFacts
) -> None:
    """global batch = micro-batch x accumulation steps x world size, and it is the one that was asked for."""
    for entry in expand(sweep_of(base, axes), facts):
        config = entry.config
        if isinstance(entry, Trial):
            assert config.accumulation_steps is not None
            assert config.global_batch_size == (config.micro_batch_size * config.accumulation_steps * config.world_size)
            assert config.device in {"cpu", "cuda"}
            for key, value in base.items():
                assert getattr(config, key) == value
        else:
            assert entry.reason.endswith(".")


@given(BASES, AXES, FACTS)
def test_expansion_is_pure(base: dict[str, Any], axes: dict[str, list[Any]], facts: MachineFacts) -> None:
    """Asked twice, it answers the same."""
    assert expand(sweep_of(base, axes), facts) == expand(sweep_of(base, axes), facts)


def test_the_last_axis_varies_fastest() -> None:
    """The order of the file is the order of the trials."""
    entries = expand(sweep_of({"global_batch_size": 4}, {"seed": [7, 3], "micro_batch_size": [4, 1]}), CPU)
    assert [entry.label() for entry in entries] == [
        "seed=7 micro_batch_size=4",
        "seed=7 micro_batch_size=1",
        "seed=3 micro_batch_size=4",
        "seed=3 micro_batch_size=1",
    ]


@pytest.mark.parametrize(
    ("batch", "micro", "world", "way_out"),
    [
        (4, 8, 1, "Use micro_batch_size 4, or global_batch_size 8."),
        (128, 32, 8, "Use micro_batch_size 16, or global_batch_size 256."),
        (10, 4, 1, "Use micro_batch_size 2 or 5, or global_batch_size 8 or 12."),
        (60, 16, 2, "Use micro_batch_size 15 or 30, or global_batch_size 32 or 64."),
        (10, 1, 4, "Use global_batch_size 8 or 12."),
    ],
)
def test_a_batch_that_does_not_divide_is_a_skip_that_names_what_does(
    batch: int, micro: int, world: int, way_out: str
) -> None:
    """Never zero steps, never another batch: the numbers are named, and the nearest that work."""
    entry = only({"global_batch_size": batch, "micro_batch_size": micro, "world_size": world})
    assert isinstance(entry, Skipped)
    assert entry.config.accumulation_steps is None
    assert entry.reason.startswith(
        f"global_batch_size = {batch} is not a multiple of micro_batch_size x world_size = {micro} x {world}."
    )
    assert entry.reason.endswith(way_out)


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 6))
def test_every_size_that_a_skip_recommends_works(batch: int, micro: int, world: int) -> None:
    """Whoever follows the advice gets a trial."""
    base = {"global_batch_size": batch, "micro_batch_size": micro, "world_size": world}
    entry = only(base)
    if isinstance(entry, Trial):
        return
    advice = entry.reason.partition(". Use ")[2].rstrip(".")
    for part in advice.split(", or "):
        key, _, sizes = part.partition(" ")
        for size in sizes.split(" or "):
            assert isinstance(only({**base, key: int(size)}), Trial), advice


def test_fewer_ranks_than_gpus_do_not_change_the_global_batch() -> None:
    """World size counts, not the number of GPUs that are visible."""
    entries = expand(sweep_of({"global_batch_size": 16}, {"world_size": [1, 2, 4]}), GPUS)
    assert [entry.config.accumulation_steps for entry in entries] == [16, 8, 4]
    assert {entry.config.global_batch_size for entry in entries} == {16}


def test_more_ranks_than_gpus_is_a_skip_on_a_gpu_and_not_on_a_cpu() -> None:
    """Ranks share a CPU; they do not share a GPU."""
    sweep = sweep_of({"global_batch_size": 8}, {"world_size": [1, 4]})
    on_gpu = expand(sweep, MachineFacts("cuda", 2))
    assert [type(entry) for entry in on_gpu] == [Trial, Skipped]
    assert isinstance(on_gpu[1], Skipped)
    assert on_gpu[1].reason == "world_size = 4 needs 4 GPUs, but only 2 are usable here. Use world_size 2 or less."
    assert all(isinstance(entry, Trial) for entry in expand(sweep, CPU))


def test_asking_for_cuda_without_a_gpu_is_a_skip() -> None:
    """The explicit device is kept; nothing moves to the CPU in silence."""
    entry = only({"global_batch_size": 1, "device": "cuda"}, CPU)
    assert isinstance(entry, Skipped)
    assert entry.config.device == "cuda"
    assert "none is usable here" in entry.reason


@pytest.mark.parametrize(
    ("settings", "facts", "reason"),
    [
        ({"amp_mode": "tf32"}, CPU, "the same as fp32 on a CPU"),
        ({"amp_mode": "bf16"}, MachineFacts("cuda", 1, bf16_supported=False), "Ampere or newer"),
        (
            {"amp_mode": "tf32"},
            MachineFacts("cuda", 1, bf16_supported=False),
            "the same as fp32 on a GPU before Ampere",
        ),
        ({"param_dtype": "bf16"}, MachineFacts("cuda", 1, bf16_supported=False), "param_dtype = bf16 needs a GPU"),
        ({"amp_mode": "fp16", "param_dtype": "fp16"}, GPUS, "gradient scaler refuses fp16 gradients"),
        ({"amp_mode": "fp16", "param_dtype": "bf16"}, GPUS, "gradient scaler refuses bf16 gradients"),
        ({"amp_mode": "tf32", "param_dtype": "bf16"}, GPUS, "no matrix product runs in fp32"),
        ({"seq_len": 1025}, CPU, "exceeds max_seq_len = 1024 of"),
    ],
)
def test_a_combination_that_cannot_work_is_a_skip_with_its_reason(
    settings: dict[str, Any], facts: MachineFacts, reason: str
) -> None:
    """What the machine or another setting rules out is said, with the value."""
    entry = only({"global_batch_size": 2, **settings}, facts)
    assert isinstance(entry, Skipped)
    assert reason in entry.reason
    assert str(next(iter(settings.values()))) in entry.reason


def test_gradient_sync_every_is_skipped_where_it_repeats_last() -> None:
    """With one rank or one accumulation step both values of the axis are the same trial."""
    axes = {"world_size": [1, 2], "micro_batch_size": [4, 1], "gradient_sync": ["last", "every"]}
    skipped = [entry for entry in expand(sweep_of({"global_batch_size": 8}, axes), GPUS) if isinstance(entry, Skipped)]
    assert [entry.label() for entry in skipped] == [
        "world_size=1 micro_batch_size=4 gradient_sync=every",
        "world_size=1 micro_batch_size=1 gradient_sync=every",
        "world_size=2 micro_batch_size=4 gradient_sync=every",
    ]


def test_a_skip_rule_selects_by_all_of_its_conditions() -> None:
    """Conditions are ANDed, values of one condition are alternatives, and the user's reason is kept as written."""
    rule = {"when": {"micro_batch_size": [2, 4], "amp_mode": "bf16"}, "reason": "too slow"}
    axes = {"micro_batch_size": [1, 2, 4], "amp_mode": ["fp32", "bf16"]}
    entries = expand(sweep_of({"global_batch_size": 4}, axes, skip=[rule]), CPU)
    skipped = [entry for entry in entries if isinstance(entry, Skipped)]
    assert [(entry.label(), entry.reason) for entry in skipped] == [
        ("micro_batch_size=2 amp_mode=bf16", "too slow"),
        ("micro_batch_size=4 amp_mode=bf16", "too slow"),
    ]


@pytest.mark.parametrize(
    ("when", "device", "skipped"),
    [
        ({"accumulation_steps": 1}, "cpu", [False, True]),
        ({"device": "cpu"}, "cpu", [True, True]),
        ({"device": "cpu"}, "cuda", [False, False]),
        ({"model.preset": "gpt2-nano"}, "cpu", [False, False]),
    ],
)
def test_a_skip_rule_may_name_what_is_derived(when: dict[str, Any], device: str, skipped: list[bool]) -> None:
    """Derived accumulation steps and the resolved device can be named like axes."""
    facts = MachineFacts("cuda" if device == "cuda" else "cpu", 1)
    sweep = sweep_of({"global_batch_size": 4}, {"micro_batch_size": [2, 4]}, skip=[{"when": when, "reason": "so"}])
    assert [isinstance(entry, Skipped) for entry in expand(sweep, facts)] == skipped


def test_a_skip_rule_does_not_take_true_for_one() -> None:
    """Equality is a person's: true is not the number 1."""
    rule = {"when": {"activation_checkpointing": 1}, "reason": "so"}
    entries = expand(sweep_of({"global_batch_size": 1}, {"activation_checkpointing": [False, True]}, skip=[rule]), CPU)
    assert all(isinstance(entry, Trial) for entry in entries)


def test_a_section_as_axis_replaces_the_section_and_a_dotted_axis_one_field() -> None:
    """Nothing of base leaks into a section given whole; a dotted axis changes nothing beside it."""
    base = {"global_batch_size": 1, "data": {"rows": "ragged"}}
    whole = expand(sweep_of(base, {"data": [{"tail": "keep"}]}), CPU)[0]
    one = expand(sweep_of(base, {"data.sequences_per_epoch": [5]}), CPU)[0]
    both = expand(sweep_of({"global_batch_size": 1}, {"optimizer.lr": [0.5], "optimizer": [{"name": "sgd"}]}), CPU)[0]
    assert (whole.config.data.rows, one.config.data.rows, one.config.data.sequences_per_epoch) == (
        "packed",
        "ragged",
        5,
    )
    assert (both.config.optimizer.name, both.config.optimizer.lr) == ("sgd", 0.5)


def test_two_combinations_that_are_the_same_trial_are_a_fault() -> None:
    """Equal trials under two labels would be measured twice and compared with themselves."""
    with pytest.raises(SweepFileError, match="are the same trial"):
        expand(sweep_of({"global_batch_size": 1}, {"data": [{"corpus": "stdlib"}, {"rows": "packed"}]}), CPU)


def test_open_micro_batch_size_is_one_search_over_the_sizes_that_divide() -> None:
    """By growing size, none beyond the limit, each a trial as if it had been listed."""
    base, axes = {"global_batch_size": 24}, {"amp_mode": ["fp32", "bf16"], "micro_batch_size": {"max": 8}}
    searches = expand(sweep_of(base, axes), CPU)
    assert [type(search) for search in searches] == [Search, Search]
    assert searches[0].label() == "amp_mode=fp32 micro_batch_size={max: 8}"
    sizes = [trial.config.micro_batch_size for trial in searches[0].candidates]
    assert sizes == [1, 2, 3, 4, 6, 8]
    listed = expand(sweep_of(base, {"amp_mode": ["fp32", "bf16"], "micro_batch_size": sizes}), CPU)
    assert [trial for search in searches for trial in search.candidates] == listed


def test_open_micro_batch_size_with_a_free_batch_tries_every_size() -> None:
    """Accumulation steps are given, so every size divides."""
    (search,) = expand(sweep_of({"accumulation_steps": 3}, {"micro_batch_size": {"max": 5}}), CPU)
    assert [trial.config.global_batch_size for trial in search.candidates] == [3, 6, 9, 12, 15]


def test_search_leaves_out_sizes_that_a_rule_skips_and_is_skipped_where_none_is_left() -> None:
    """With the reason of the smallest."""
    rule = {"when": {"micro_batch_size": [4]}, "reason": "known to fail"}
    (search,) = expand(sweep_of({"global_batch_size": 4}, {"micro_batch_size": {"max": 4}}, skip=[rule]), CPU)
    assert [trial.config.micro_batch_size for trial in search.candidates] == [1, 2]
    skipped, fine = expand(
        sweep_of({"global_batch_size": 3}, {"world_size": [2, 1], "micro_batch_size": {"max": 4}}), CPU
    )
    assert isinstance(skipped, Skipped)
    assert "multiple" in skipped.reason
    assert isinstance(fine, Search)
