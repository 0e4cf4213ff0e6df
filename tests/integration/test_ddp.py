"""The accumulation loop on 2 and 3 gloo ranks: equal to one concatenated batch, and nobody hangs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.loop import WindowCounts
from tests.loops import tokens
from tests.oracle import (
    Batch,
    TinyLM,
    assert_equal_steps,
    concatenated,
    merge,
    random_batch,
)
from tests.rank_pool import RankError, RankPool

pytestmark = [pytest.mark.ddp, pytest.mark.slow]

STREAMED = {"window_options": {"window_mode": "streamed", "nominal_units": 40.0}}
WEIGHTS = [0.5, 4.0, 0.0, 1.0, 2.0, 1.0, 1.0, 0.25, 3.0, 1.0, 1.0]


@pytest.fixture(scope="module")
def pool() -> Iterator[RankPool]:
    """Three ranks for the whole file."""
    pool = RankPool(3)
    yield pool
    pool.close()


def of_ranks(*shapes: list[tuple[int, int, float]]) -> list[list[Batch]]:
    """Make each rank's micro-batches from (rows, length, share ignored)."""
    return [
        [random_batch(rows, length, 100 * rank + i, ignored) for i, (rows, length, ignored) in enumerate(mine)]
        for rank, mine in enumerate(shapes)
    ]


def per_rank(data: list[list[Batch]]) -> list[dict[str, Any]]:
    return [{"data": mine} for mine in data]


def check(answers: list[dict[str, Any]], data: list[list[Batch]], steps: int, optimizer: str, **oracle: Any) -> None:
    """Hold every rank's every update against the oracle, and the ranks against each other."""
    right = concatenated(TinyLM(), merge(data, steps), optimizer, **oracle)
    for answer in answers:
        assert_equal_steps(answer["steps"], right)
        assert answer["diverged"] == []
    assert len({answer["checksum"] for answer in answers}) == 1


ROW = (2, 3, 0.2)
UNEVEN: dict[str, tuple[list[list[Batch]], int]] = {
    "even": (of_ranks([ROW] * 4, [ROW] * 4), 2),
    "3 and 5 micro-batches": (of_ranks([ROW] * 3, [ROW] * 5), 2),
    "5 and 3 micro-batches": (of_ranks([ROW] * 5, [ROW] * 3), 2),
    "2 and 0 micro-batches": (of_ranks([ROW] * 2, []), 2),
    "0 and 3 micro-batches": (of_ranks([], [ROW] * 3), 2),
    "a rank without valid targets": (of_ranks([(2, 3, 1.0)] * 4, [ROW] * 4), 2),
    "unequal sizes": (of_ranks([(1, 15, 0.1), (2, 3, 0.0)], [(4, 1, 0.5), (1, 1, 0.0), (3, 9, 0.0)]), 2),
    "an empty window": (of_ranks([ROW, (1, 2, 1.0), ROW], [ROW, (2, 2, 1.0), ROW]), 1),
    "three ranks, one empty": (of_ranks([ROW] * 5, [], [ROW] * 2), 2),
    "three ranks, uneven": (of_ranks([ROW] * 1, [(1, 7, 0.0)] * 4, [ROW] * 7), 3),
}


@pytest.mark.parametrize("sync", ["last", "every"])
@pytest.mark.parametrize("options", [{}, STREAMED], ids=["buffered", "streamed"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", UNEVEN)
def test_every_update_on_every_rank_equals_the_concatenated_batch(
    pool: RankPool, name: str, optimizer: str, options: dict[str, Any], sync: str
) -> None:
    """Uneven, empty and unsupervised ranks included; ends in seconds, counts say what was fed.

    https://github.com/Lightning-AI/pytorch-lightning/issues/20404
    """
    data, steps = UNEVEN[name]
    answers = pool.run(
        "tiny_lm",
        len(data),
        per_rank(data),
        steps=steps,
        optimizer=optimizer,
        sync_options={"gradient_sync": sync},
        clip_norm=0.4,
        **options,
    )
    check(answers, data, steps, optimizer, clip_norm=0.4)
    for mine, answer in zip(data, answers, strict=True):
        assert sum(plan.this_rank.micro_batches for plan in answer["plans"]) == len(mine)
        assert sum(plan.all_ranks.micro_batches for plan in answer["plans"]) == sum(map(len, data))
    assert len({tuple(answer["norms"]) for answer in answers}) == 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    lengths=st.lists(
        st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5), st.sampled_from([0.0, 0.5, 1.0])), max_size=5),
        min_size=2,
        max_size=3,
    ).filter(any),
    steps=st.integers(1, 4),
    optimizer=st.sampled_from(["sgd", "adamw"]),
    streamed=st.booleans(),
    every=st.booleans(),
    weighted=st.booleans(),
)
def test_random_data_on_random_ranks_equals_the_concatenated_batch(
    pool: RankPool, lengths: Any, steps: int, optimizer: str, streamed: bool, every: bool, weighted: bool
) -> None:
    """Whatever each rank has, in either window mode and sync mode, weighted or not."""
    data = of_ranks(*lengths)
    weights = WEIGHTS if weighted else None
    answers = pool.run(
        "tiny_lm",
        len(data),
        per_rank(data),
        steps=steps,
        optimizer=optimizer,
        class_weights=weights,
        sync_options={"gradient_sync": "every" if every else "last"},
        **(STREAMED if streamed else {}),
    )
    check(answers, data, steps, optimizer, class_weights=weights)


def test_no_data_on_any_rank_is_a_clear_error_everywhere(pool: RankPool) -> None:
    """All ranks say so; none waits for the others."""
    with pytest.raises(
        RankError, match=r"(?s)rank 0: ValueError: no rank has any.*rank 1: ValueError: no rank has any"
    ):
        pool.run("tiny_lm", 2, per_rank([[], []]), steps=2, optimizer="sgd")


def test_tokens_are_averaged_over_ranks(pool: RankPool) -> None:
    """10 tokens here and 90 there give 0.4 on both; per-rank means give 0, a forgotten world size 0.2.

    https://github.com/huggingface/transformers/issues/34242
    """
    data = [[tokens(zeros=10)], [tokens(ones=90)]]
    for answer in pool.run("bias", 2, per_rank(data), steps=1):
        assert answer == pytest.approx([0.4], abs=1e-15)


def test_class_weights_are_added_over_ranks(pool: RankPool) -> None:
    """Weights 1 and 4, ignored labels beside: 0.3 with the halves on two ranks too.

    https://github.com/pytorch/pytorch/issues/72047
    """
    data = [[tokens(9, 1, 3)], [tokens(1, 9, 50)]]
    for answer in pool.run("bias", 2, per_rank(data), steps=1, class_weights=[1.0, 4.0]):
        assert answer == pytest.approx([0.3], abs=1e-15)


def test_token_counts_start_anew_in_every_window(pool: RankPool) -> None:
    """[5, 20] then [10, 3] are 25 and 13 on both ranks.

    https://github.com/meta-pytorch/torchtune/pull/1917
    """
    data = [[tokens(ones=5), tokens(ones=10)], [tokens(ones=20), tokens(ones=3)]]
    for answer in pool.run("denominators", 2, per_rank(data), steps=1):
        assert answer == [(25, 25.0), (13, 13.0)]


def test_reported_loss_is_the_same_for_every_world_size(pool: RankPool) -> None:
    """32 rows on one rank, on two, on three.

    https://github.com/huggingface/transformers/issues/35204
    """
    rows = [random_batch(1, 5, seed, 0.3) for seed in range(32)]
    losses = []
    for world in (1, 2, 3):
        data = [rows[rank::world] for rank in range(world)]
        answers = pool.run("tiny_lm", world, per_rank(data), steps=32, optimizer="sgd", amp_mode="fp32")
        losses += [answer["steps"][0].loss for answer in answers]
    assert losses == pytest.approx([losses[0]] * 6, rel=1e-6)


def test_counts_arrive_exactly(pool: RankPool) -> None:
    """Integers beyond 2**53 and the last bit of float64 units survive the exchange; each exchange is its own."""
    counts = [WindowCounts(1, 2, 2**53 + 1, 2**62 + 3, 0.1), WindowCounts(4, 5, 6, 7, 0.2)]
    first, second = pool.run("agree", 2, [{"counts": mine} for mine in counts])
    assert first == second
    assert list(first.per_rank) == counts
    assert (first.all_ranks.valid_tokens, first.all_ranks.units) == (2**53 + 7, 0.1 + 0.2)
    assert first.more is False


@pytest.mark.parametrize(("every", "rounds"), [(False, 1), (True, 4)])
def test_gradients_are_reduced_once_a_window_or_when_asked_every_micro_step(
    pool: RankPool, every: bool, rounds: int
) -> None:
    """The hook of DistributedDataParallel and the benchmark's counter agree, bucket by bucket.

    https://github.com/pytorch/PiPPy/issues/1133
    """
    data = of_ranks([ROW] * 12, [ROW] * 12)
    for answer in pool.run("count_reductions", 2, per_rank(data), steps=4, every=every):
        assert answer["buckets"] == answer["hook_buckets"] > 1
        assert answer["by_hook"] == answer["by_counter"] == [rounds * answer["buckets"]] * 2


def test_no_sync_around_the_backward_alone_is_counted_for_what_it_is(pool: RankPool) -> None:
    """The mistake that nobody sees in the numbers: four rounds instead of one.

    https://github.com/facebookresearch/ClassyVision/pull/706
    """
    data = of_ranks([ROW] * 8, [ROW] * 8)
    for answer in pool.run("count_reductions", 2, per_rank(data), steps=4, every=False, spoil=True):
        assert answer["by_counter"] == [4 * answer["buckets"]]


@pytest.mark.parametrize("every", [False, True])
def test_ranks_without_data_count_the_same_rounds(pool: RankPool, every: bool) -> None:
    """Rank 1 has no data in the second window and one micro-batch of three in the third; the last window is partial.

    https://github.com/huggingface/accelerate/issues/2831
    """
    data = of_ranks([ROW] * 8, [ROW] * 2)
    first, second = pool.run("count_reductions", 2, per_rank(data), steps=2, every=every)
    assert first["by_hook"] == second["by_hook"] == first["by_counter"] == second["by_counter"]
    assert first["by_hook"] == [(2 if every else 1) * first["buckets"]] * 3


def test_learning_rates_do_not_depend_on_the_world_size(pool: RankPool) -> None:
    """One step of the schedule an update, not one a process.

    https://github.com/huggingface/accelerate/pull/999
    """
    traces = set()
    for world in (1, 2, 3):
        data = of_ranks(*[[ROW] * 8] * world)
        answers = pool.run("tiny_lm", world, per_rank(data), steps=2, optimizer="sgd", lr_warmup_updates=8)
        traces |= {tuple(answer["lrs"]) for answer in answers}
    assert len(traces) == 1
    assert traces.pop() == pytest.approx((0.0125, 0.025, 0.0375, 0.05))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_scales_and_parameters_stay_equal_when_a_rank_runs_out_of_data(pool: RankPool, optimizer: str) -> None:
    """fp16: rank 1 ends one window early, rank 0 overflows in the second; all skip together.

    https://github.com/pytorch/pytorch/issues/90057
    """
    data = of_ranks([ROW] * 8, [ROW] * 6)
    answers = pool.run(
        "tiny_lm",
        2,
        [{"data": data[0], "bombs": [3]}, {"data": data[1]}],
        steps=2,
        optimizer=optimizer,
        amp_mode="fp16",
        scaler_options={"growth_interval": 2},
    )
    assert [answer["results"] for answer in answers] == [["applied", "skipped", "applied", "applied"]] * 2
    assert answers[0]["scales"] == answers[1]["scales"] == [65536.0, 65536.0, 32768.0, 32768.0]
    assert answers[0]["checksum"] == answers[1]["checksum"]


def test_rank_that_never_had_data_takes_part_in_fp16(pool: RankPool) -> None:
    """Its scaler was never given a loss, and still unscales by the common scale."""
    data = of_ranks([ROW] * 4, [])
    answers = pool.run("tiny_lm", 2, per_rank(data), steps=2, optimizer="adamw", amp_mode="fp16", clip_norm=1.0)
    assert answers[0]["results"] == answers[1]["results"] == ["applied", "applied"]
    assert answers[0]["checksum"] == answers[1]["checksum"]


@pytest.mark.parametrize(
    "what", ["static_graph", "device_ids", "find_unused_parameters", "wrapped", "nested", "sync_batch_norm", "frozen"]
)
def test_what_accumulation_cannot_do_is_refused_with_the_cure(pool: RankPool, what: str) -> None:
    """https://github.com/pytorch/pytorch/issues/143580 and https://github.com/meta-pytorch/torchrec/pull/4121"""
    words = {
        "static_graph": "static_graph = True does not work with no_sync .* unused_parameters='search'",
        "device_ids": "device_ids moves inputs, .* Leave it out",
        "find_unused_parameters": "Use unused_parameters='search' or 'refuse'",
        "wrapped": r"the model is already wrapped .* Pass the bare model \(its .module\)",
        "nested": "tower of the model is already wrapped",
        "sync_batch_norm": "1 of the model is SyncBatchNorm, .* Use BatchNorm, GroupNorm or LayerNorm",
        "frozen": "no trainable parameter",
    }
    with pytest.raises(
        RankError, match=f"(?s)rank 0: ValueError: .*{words[what]}.*rank 1: ValueError: .*{words[what]}"
    ):
        pool.run("wrap", 2, what=what)


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("search", [False, True])
@pytest.mark.parametrize("uses", [1, 2])
def test_reentrant_checkpointing_is_refused_where_it_cannot_work(
    pool: RankPool, use_reentrant: bool, search: bool, uses: int
) -> None:
    """With the search, and for a block used twice, it is refused with the cure; all other combinations run.

    https://github.com/huggingface/peft/issues/313
    """
    arguments = {"use_reentrant": use_reentrant, "search": search, "uses": uses}
    data = per_rank(of_ranks([ROW] * 4, [ROW] * 4))
    if use_reentrant and (search or uses == 2):
        with pytest.raises(
            RankError,
            match=r"(?s)rank 0: ValueError: reentrant [^\n]* use_reentrant=False.*rank 1: ValueError: reentrant",
        ):
            pool.run("checkpointed", 2, data, **arguments)
    else:
        assert pool.run("checkpointed", 2, data, **arguments) == [["applied", "applied"]] * 2


def branch(*heads: int) -> list[Batch]:
    """Make micro-batches that use these heads."""
    data = [random_batch(2, 3, 7 * i + head) for i, head in enumerate(heads)]
    for (inputs, _), head in zip(data, heads, strict=True):
        inputs[0, 0] = head
    return data


@pytest.mark.parametrize("steps", [1, 2])
def test_unused_parameters_are_refused_by_name(pool: RankPool, steps: int) -> None:
    """A layer the loss never touches is named on every rank, instead of 'expected to have finished reduction'.

    https://github.com/huggingface/peft/issues/951
    """
    named = "heads.1.weight, heads.1.bias, pooler.weight, pooler.bias"
    data = per_rank([branch(0, 0), branch(0, 0)])
    with pytest.raises(RankError, match=f"(?s)rank 0: NoGradient: .*{named}.*rank 1: NoGradient: .*{named}"):
        pool.run("branches", 2, data, steps=steps, with_unused=True, search=False)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_parameters_left_out_of_some_micro_batches_are_right_under_the_search(pool: RankPool, optimizer: str) -> None:
    """Head 1 is used in an unsynchronised micro-batch of one rank alone; the pooler never, and stays untouched.

    Equal to one rank with all of the data; a rank without data takes part.
    """
    data = [branch(1, 0, 0, 0, 1), branch(0, 0, 0, 0)]
    arguments = {"with_unused": True, "search": True, "optimizer": optimizer}
    answers = pool.run("branches", 2, per_rank(data), steps=2, **arguments)
    together = [data[0][0], data[0][1], data[1][0], data[1][1], data[0][2], data[0][3], data[1][2], data[1][3]]
    (right,) = pool.run("branches", 1, [{"data": together}], steps=4, **arguments)
    for answer in answers:
        assert_equal_steps(answer["steps"][:2], right["steps"])
        assert answer["without_gradient"] == ["heads.0.weight", "heads.0.bias", "pooler.weight", "pooler.bias"]
        assert answer["diverged"] == []


@pytest.mark.parametrize("every", [False, True])
def test_batch_norm_on_uneven_ranks_neither_hangs_nor_diverges(pool: RankPool, every: bool) -> None:
    """Buffers are broadcast as often on a rank without data, which runs no forward of the model."""
    data = of_ranks([(2, 3, 0.0)] * 5, [(2, 3, 0.0)])
    first, second = pool.run("normed", 2, per_rank(data), every=every)
    assert first["results"] == second["results"] == ["applied", "applied"]
    assert first["diverged"] == second["diverged"] == []
    assert first["batches_seen"] == 5


@pytest.mark.parametrize("name", [None, "embedding.weight", "head.bias"])
def test_one_flipped_bit_on_one_rank_is_found_and_named(pool: RankPool, name: str | None) -> None:
    """All ranks give the same answer."""
    assert pool.run("planted_divergence", 3, name=name) == [[] if name is None else [name]] * 3


def test_zero_contribution_is_zero_whatever_the_parameters_hold(pool: RankPool) -> None:
    """Zero times NaN would be NaN."""
    assert pool.run("zero_of_bad_parameters", 2) == [[0.0, 0.0]] * 2
