"""A sweep becomes trials: the full product of its axes, each point a trial, a search, or a skip with a reason.

Pure: the machine enters as three facts. So `bench plan` can show what another machine would run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bench.errors import SweepFileError
from bench.sweep.fields import SEARCHED_AXIS, SkipRule, TrialConfig
from bench.sweep.paths import value_at, with_settings
from bench.sweep.rules import contradictions
from bench.sweep.trial import Search, Skipped, Sweep, Trial, label_of, resolve, trial_id

AxisValues = tuple[tuple[str, Any], ...]
"""Axis name and value of one point, in file order."""


@dataclass(frozen=True)
class MachineFacts:
    """Hold what a machine decides about a sweep."""

    device: Literal["cpu", "cuda"]
    """What `device: auto` becomes."""
    cuda_device_count: int
    """GPUs that torch can use here."""
    bf16_supported: bool = True
    """Whether the GPUs compute in bf16 themselves."""
    gpu_uuids: tuple[str | None, ...] = field(default=(), compare=False)
    """UUID of each of these GPUs, in torch's order, for who must find them elsewhere; it decides nothing."""
    runs_compiled: bool = True
    """Whether the GPUs run code that torch.compile generates."""


def expand(sweep: Sweep, facts: MachineFacts) -> list[Trial | Skipped | Search]:
    """Expand a sweep into one entry per combination of axis values, in file order, the last axis fastest.

    A combination with an open micro-batch size, {max: N}, is one search over the sizes that divide.

    Raises:
        SweepFileError: Two combinations are the same trial.
    """
    entries: list[Trial | Skipped | Search] = []
    first_values: dict[str, AxisValues] = {}
    for open_values, sizes in itertools.groupby(combinations(sweep), key=lambda combination: combination[2]):
        found = [_entry(sweep, facts, values, given, first_values) for values, given, _ in sizes]
        if open_values is None:
            entries += found
        else:
            entries.append(_search(open_values, found))
    return entries


def _search(open_values: AxisValues, found: Sequence[Trial | Skipped]) -> Search | Skipped:
    """Make one search of the sizes that can run; where none can, a skip with the reason of the smallest."""
    candidates = tuple(entry for entry in found if isinstance(entry, Trial))
    if candidates:
        return Search(candidates, open_values)
    assert isinstance(found[0], Skipped), "what is no trial is skipped"
    return replace(found[0], axis_values=open_values)


def _entry(
    sweep: Sweep,
    facts: MachineFacts,
    values: AxisValues,
    given: TrialConfig,
    first_values: dict[str, AxisValues],
) -> Trial | Skipped:
    """Make one point a trial or a skip; `first_values` remembers the points before it by their ids."""
    config = resolve(given, facts.device)
    name = trial_id(config)
    if name in first_values:
        labels = f"{label_of(first_values[name])!r} and {label_of(values)!r}"
        where = "trials" if sweep.spec.trials else "axes"
        what = f"{sweep.path or sweep.name}: {where}: {labels} are the same trial here"
        raise SweepFileError([f"{what} ({name}). Remove one of the two."])
    first_values[name] = values
    reason = _reason_to_skip(sweep, values, given, config, facts)
    return Trial(name, config, values) if reason is None else Skipped(name, config, reason, values)


def combinations(sweep: Sweep) -> Iterator[tuple[AxisValues, TrialConfig, AxisValues | None]]:
    """Yield the axis values and the settings, not yet resolved, of every combination in file order.

    A combination with an open micro-batch size yields one entry for each size that divides, and the axis values as
    written; these are null for all others.
    """
    base = sweep.spec.base.model_dump(exclude_unset=True)
    for settings in sweep.spec.trials:
        config = TrialConfig.model_validate(with_settings(base, settings))
        yield tuple((name, settings.get(name, value_at(config, name))) for name in sweep.axes), config, None
    if sweep.spec.trials:
        return
    for chosen in itertools.product(*sweep.spec.axes.values()):
        values = dict(zip(sweep.axes, chosen, strict=True))
        limit = values.get(SEARCHED_AXIS)
        if not isinstance(limit, dict):
            yield tuple(values.items()), TrialConfig.model_validate(with_settings(base, values)), None
            continue
        for size in _sizes(with_settings(base, values | {SEARCHED_AXIS: 1}), limit["max"]):
            sized = values | {SEARCHED_AXIS: size}
            config = TrialConfig.model_validate(with_settings(base, sized))
            yield tuple(sized.items()), config, tuple(values.items())


def _sizes(settings: Mapping[str, Any], largest: int) -> list[int]:
    """List the micro-batch sizes that a search may try: those that divide, or all where the global batch is free."""
    config = TrialConfig.model_validate(settings)
    if config.global_batch_size is None:
        return list(range(1, largest + 1))
    per_rank, rest = divmod(config.global_batch_size, config.world_size)
    # Where not even 1 divides, 1 stands for all: it is skipped with the reason.
    return [1] if rest else [size for size in range(1, min(largest, per_rank) + 1) if per_rank % size == 0]


def _reason_to_skip(
    sweep: Sweep, values: AxisValues, given: TrialConfig, resolved: TrialConfig, facts: MachineFacts
) -> str | None:
    for rule in sweep.spec.skip:
        if rule_matches(rule, dict(values), resolved):
            return rule.reason
    # The settings as given: resolving fills in numbers that nobody asked for.
    if given.global_batch_size is None:
        given = given.model_copy(update={"global_batch_size": resolved.global_batch_size})
    for contradiction in contradictions(given):
        return contradiction.sentence()
    return _repeats_another(sweep, resolved) or _lacks(resolved, facts)


def rule_matches(rule: SkipRule, values: Mapping[str, Any], resolved: TrialConfig) -> bool:
    """Tell whether a skip rule selects a combination: every condition holds."""
    return all(
        any(same_value(_value_for_rule(name, values, resolved), value) for value in listed(wanted))
        for name, wanted in rule.when.items()
    )


def listed(wanted: Any) -> list[Any]:
    """Read a condition's value or list of values as a list."""
    return wanted if isinstance(wanted, list) else [wanted]


def same_value(one: Any, other: Any) -> bool:
    """Compare as a person reads: 1 is 1.0, but true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _value_for_rule(name: str, values: Mapping[str, Any], resolved: TrialConfig) -> Any:
    return values[name] if name in values else value_at(resolved, name)


def _repeats_another(sweep: Sweep, config: TrialConfig) -> str | None:
    """Say that a value of an axis changes nothing in this combination."""
    if config.amp_mode == "tf32" and config.device == "cpu":
        return "amp_mode = tf32 is the same as fp32 on a CPU. Use amp_mode fp32."
    if config.gradient_sync == "every" and "gradient_sync" in sweep.axes:
        if config.world_size == 1:
            return "gradient_sync = every is the same as last with one rank. Use world_size 2 or more."
        if config.accumulation_steps == 1:
            return (
                "gradient_sync = every is the same as last with one accumulation step. Use a smaller micro_batch_size."
            )
    return None


def _lacks(config: TrialConfig, facts: MachineFacts) -> str | None:
    """Say what this machine lacks for a trial."""
    if config.device != "cuda":
        return None
    count = facts.cuda_device_count
    asked = f"world_size = {config.world_size} needs {config.world_size} GPU{'s' if config.world_size > 1 else ''}"
    if count == 0:
        return f"{asked}, but none is usable here. Use a machine with GPUs, or device cpu."
    if config.world_size > count:
        most = "1" if count == 1 else f"{count} or less"
        return f"{asked}, but only {count} {'is' if count == 1 else 'are'} usable here. Use world_size {most}."
    if config.compile and not facts.runs_compiled:
        return (
            "compile = true needs a GPU that runs generated kernels, and a stand-in GPU knows torch's own alone. Use "
            "compile false, or device cpu."
        )
    if not facts.bf16_supported and "bf16" in (config.amp_mode, config.param_dtype):
        key = "amp_mode" if config.amp_mode == "bf16" else "param_dtype"
        return f"{key} = bf16 needs a GPU that computes in bf16 (Ampere or newer). Use fp16 or fp32."
    if not facts.bf16_supported and config.amp_mode == "tf32":  # both came with Ampere
        return "amp_mode = tf32 is the same as fp32 on a GPU before Ampere. Use amp_mode fp32."
    return None
