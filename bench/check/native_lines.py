"""What the loop of `bench` reports about itself, compared with an independent count."""

from __future__ import annotations

from collections.abc import Sequence

from bench.check.exchange.lines import Line, Verdict
from bench.check.native import NativeStep
from bench.check.oracle import IGNORED, Batch, units_of
from bench.check.trial_run import Watched
from bench.loop import UpdateResult


def counters_line(native: NativeStep, watched: Sequence[Watched], world_size: int) -> Line:
    """Compare every counter of every update with plain counting."""
    windows = [(one, update) for one in watched for _ in range(one.case.passes) for update in range(len(one.windows))]
    if len(native.results) != len(windows):
        return Line("counters", "FAIL", None, f"{len(native.results)} updates reported, {len(windows)} planned")
    wrong = []
    for (one, update), result in zip(windows, native.results, strict=True):
        for name, said, right in _pairs(one, update, result, world_size, native):
            if said != right:
                wrong.append(f"{name} of update {update}: {said} reported, {right} counted ({one.case.name})")
    applied = sum(result.result == "applied" for result in native.results)
    steps = sum(len(one.watch.seen) + len(one.watch.seen_empty) for one in watched)
    if applied != steps:
        wrong.append(f"{applied} updates reported as applied, but {steps} optimizer steps")
    if wrong:
        return Line("counters", "FAIL", float(len(wrong)), wrong[0])
    counted = "micro-batches, sequences, valid tokens, token slots, loss units and partial windows"
    words = f"{counted} of {len(windows)} updates; {applied} applied, {steps} optimizer steps"
    return Line("counters", "PASS", 0.0, words)


def _pairs(
    one: Watched, update: int, result: UpdateResult, world_size: int, native: NativeStep
) -> list[tuple[str, float, float]]:
    """List (counter, what the loop said, what is right)."""
    window, said = one.windows[update], result.plan.all_ranks
    own = one.own[update * one.steps : (update + 1) * one.steps]
    return [
        ("number", result.plan.update, update),
        ("micro_batches", said.micro_batches, len(window)),
        ("sequences", said.sequences, sum(len(inputs) for inputs, _ in window)),
        ("valid_tokens", said.valid_tokens, _valid(window)),
        ("token_slots", said.token_slots, sum(targets.numel() for _, targets in window)),
        ("units", said.units, units_of(window, native.class_weights)),
        ("micro_batches of this rank", result.plan.this_rank.micro_batches, len(own)),
        ("valid_tokens of this rank", result.plan.this_rank.valid_tokens, _valid(own)),
        ("partial", result.plan.is_partial, len(window) < one.steps * world_size),
    ]


def _valid(batches: Sequence[Batch]) -> int:
    return sum(target != IGNORED for _, targets in batches for target in targets.flatten().tolist())


def sync_line(native: NativeStep, watched: Sequence[Watched], world_size: int) -> Line:
    """Count the rounds in which gradients were synchronised, where the reducer asks for them."""
    if world_size == 1:
        return Line("gradient_sync", "NOT APPLICABLE", None, "one rank has nothing to synchronise")
    streamed = native.window_mode == "streamed"
    # A streamed window learns only at its end that it is a partial one, or one without any target.
    synced = [
        (one, window)
        for one in watched
        for window in one.windows * one.case.passes
        if streamed or units_of(window, native.class_weights)
    ]
    updates = asked = len(synced)
    if native.gradient_sync == "every":
        asked = sum(one.steps if streamed else min(one.steps, -(-len(window) // world_size)) for one, window in synced)
    words = f"{native.sync_rounds} rounds in {updates} updates of {world_size} ranks, {asked} asked for"
    verdict: Verdict = "PASS" if native.sync_rounds == asked else "FAIL"
    return Line("gradient_sync", verdict, native.sync_rounds / updates, words)
