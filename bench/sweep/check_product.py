"""Faults that only the full product of the axes shows: too many trials, none left, rules that select nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from bench.sweep.expand import MachineFacts, combinations, expand, rule_matches
from bench.sweep.faults import Fault, Location
from bench.sweep.fields import LARGEST, SkipRule, SweepSpec
from bench.sweep.trial import Search, Skipped, Sweep, Trial, resolve

MOST_TRIALS = 10_000
"""Most combinations a sweep may have: more is a mistake, and would take weeks."""

_ENDLESS = MachineFacts(device="cuda", cuda_device_count=LARGEST)
"""A machine that can run everything: a trial skipped here is skipped by the sweep itself."""


def product_faults(spec: SweepSpec) -> Iterator[Fault]:
    """Find what only the full product shows: too many trials, none left, rules and limits that nothing meets."""
    number = len(spec.trials) or math.prod(len(values) for values in spec.axes.values())
    if number > MOST_TRIALS:
        problem = f"makes {number:,} combinations; a sweep may have at most {MOST_TRIALS:,}"
        where = "trials" if spec.trials else "axes"
        yield Fault((where,), problem, "Shorten an axis, or split the sweep", shows_value=False)
        return
    sweep = Sweep(spec.name, None, "", spec, spec.varied(), "")
    entries = expand(sweep, _ENDLESS)
    trials = [entry for entry in entries if isinstance(entry, Trial)]
    trials += [trial for entry in entries if isinstance(entry, Search) for trial in entry.candidates]
    yield from _unused_rules(sweep)
    if trials:
        yield from _epochs_that_never_end(spec, trials)
    elif spec.varied():  # a single trial is refused by who would run it
        yield _nothing_left(spec, [entry.reason for entry in entries if isinstance(entry, Skipped)])


def _unused_rules(sweep: Sweep) -> Iterator[Fault]:
    unused: dict[int, SkipRule] = dict(enumerate(sweep.spec.skip))
    if not unused:
        return
    for values, config, _ in combinations(sweep):
        resolved = [resolve(config, "cpu"), resolve(config, "cuda")]
        for number, rule in list(unused.items()):
            if any(rule_matches(rule, dict(values), each) for each in resolved):
                del unused[number]
        if not unused:
            return
    for number, rule in unused.items():
        way_out = "Correct its values, or remove the rule"
        yield Fault(("skip", number, "when"), "matches no trial of this sweep", way_out, rule.when)


def _nothing_left(spec: SweepSpec, reasons: list[str]) -> Fault:
    """Say that no trial is left, and the most frequent reason."""
    batch = spec.base.global_batch_size
    asked = {rule.reason for rule in spec.skip}
    ours = [reason for reason in reasons if reason not in asked]
    if batch is not None and ours and all(reason.startswith("global_batch_size = ") for reason in ours):
        problem = "is not a multiple of micro_batch_size x world_size in any combination"
        _, _, advice = ours[0].rstrip(".").partition(". Use ")
        return Fault(("base", "global_batch_size"), problem, f"For the first combination, use {advice}", batch)
    most = max(reasons, key=reasons.count)
    same = reasons.count(most)
    count = "" if same == len(reasons) else f"{same} of them "
    problem = f"leaves nothing to run: all {len(reasons)} combinations are skipped, {count}because {most.rstrip('.')}"
    where = "trials" if spec.trials else "axes"
    return Fault((where,), problem, f"Change {where} or base so that a trial is left", shows_value=False)


def _epochs_that_never_end(spec: SweepSpec, trials: list[Trial]) -> Iterator[Fault]:
    """An epoch longer than all a launch reads changes nothing."""
    measure = spec.measure
    if measure.warmup_updates is None or measure.updates is None:
        return  # a launch may go on for as long as its preset needs
    # First update, three of the memory pass, warm-up, timed part, what the loss at quality_updates may add, and the two
    # that are witnessed at most.
    updates = 6 + measure.warmup_updates + measure.updates + measure.quality_updates
    largest = max(trial.config.global_batch_size or 0 for trial in trials) * updates
    key = "data.sequences_per_epoch"
    in_base = spec.base.data.sequences_per_epoch
    places: list[tuple[Location, Any]] = [(("base", *key.split(".")), in_base)]
    places += [(("axes", key, position), value) for position, value in enumerate(spec.axes.get(key, []))]
    places += [(("trials", position, key), settings.get(key)) for position, settings in enumerate(spec.trials)]
    for location, value in places:
        if isinstance(value, int) and value > largest:
            problem = f"has no effect: a launch of this sweep reads at most {largest:,} sequences, so no epoch ends"
            yield Fault(location, problem, "Use a smaller number, or remove it", value)
