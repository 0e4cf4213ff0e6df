"""Choose configurations one by one from results or a sweep file: by trial id, by name, or by conditions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import BenchError
from bench.units import listed

if TYPE_CHECKING:
    from bench.sweep.fields import TrialConfig

_TRIAL_ID = re.compile(r"[0-9a-f]{6,12}")
"""A trial id, or enough of its beginning."""


@dataclass(frozen=True)
class Choice:
    """Hold one configuration that may be chosen."""

    trial_id: str
    config: TrialConfig
    """Resolved settings."""
    columns: dict[str, Any]
    """The settings as columns of the results."""
    name: str
    """What tables call it: AMP mode, micro-batch x accumulation steps, and whatever else tells it apart."""
    names: frozenset[str]
    """All that it is called: the shortest that tells it apart, and what the tables of the results print."""


def choices_of(source: Path, device: str | None) -> list[Choice]:
    """List the configurations of a results folder, a parquet file or a sweep file, in order.

    Args:
        source: What was named.
        device: Where to run instead of where they ran, or where the file says; null changes nothing.

    Raises:
        BenchError: It is none of these, or holds what this version cannot read.
    """
    is_file = source.suffix in (".yaml", ".yml")
    named = [(config, ()) for config in _of_sweep(source, device)] if is_file else _of_results(source, device)
    from bench.record.config_columns import config_columns
    from bench.report.points import extra_axes, name_of
    from bench.sweep.trial import trial_id

    by_id: dict[str, TrialConfig] = {}
    printed: dict[str, list[str]] = {}
    for config, names in named:
        by_id[trial_id(config)] = config
        printed.setdefault(trial_id(config), []).extend(names)
    rows = [config_columns(config) for config in by_id.values()]
    extra = extra_axes(rows)
    short = [name_of(row, extra) for row in rows]
    return [
        Choice(trial, config, row | {"trial_id": trial}, name, frozenset((name, *printed[trial])))
        for (trial, config), row, name in zip(by_id.items(), rows, short, strict=True)
    ]


def choose(choices: Sequence[Choice], texts: Sequence[str], source: Path) -> list[Choice]:
    """Choose one configuration for each text; without any, all of them.

    Raises:
        BenchError: A text chooses none or several, or two choose the same one, or fewer than two are chosen.
    """
    chosen = [_only_one(text, choices, source) for text in texts] if texts else list(choices)
    by_id: dict[str, str] = {}
    for text, one in zip(texts, chosen, strict=bool(texts)):
        if one.trial_id in by_id:
            raise BenchError(
                f"{by_id[one.trial_id]!r} and {text!r} are the same configuration, {one.name} (trial {one.trial_id}): "
                "nothing to compare. Name two different ones."
            )
        by_id[one.trial_id] = text
    if len(chosen) < 2:
        raise BenchError(
            f"{len(chosen)} configuration is too few: name a baseline and at least one candidate, as in\n"
            f"  bench compare {source} --run 'micro_batch_size == 4' 'micro_batch_size == 8'\n"
            f"{source} holds: {_listed(choices)}."
        )
    return chosen


def _only_one(text: str, choices: Sequence[Choice], source: Path) -> Choice:
    found = _found(text, choices)
    if not found:
        raise BenchError(f"{text!r} matches no configuration of {source}. It holds: {_listed(choices)}.")
    if len(found) > 1:
        raise BenchError(
            f"{text!r} matches {len(found)} configurations of {source}: {_listed(found)}. Add conditions with `and`, "
            f"or give a trial id or a name: '{found[0].trial_id}' or '{found[0].name}'."
        )
    return found[0]


def _found(text: str, choices: Sequence[Choice]) -> list[Choice]:
    from bench.report.named_results import SHOWN_BY_NAME
    from bench.report.where import parse_condition

    named = [one for one in choices if text.strip() in one.names]
    if named:
        return named
    if _TRIAL_ID.fullmatch(text.strip()):
        return [one for one in choices if one.trial_id.startswith(text.strip())]
    if not set(text) & set("=<>!"):
        return []  # no condition either, so a name or id that is not there
    conditions = [parse_condition(part, "--run") for part in re.split(r"\s+and\s+", text)]
    for condition in conditions:
        if SHOWN_BY_NAME[condition.column].rule != "config" and condition.column != "trial_id":
            raise BenchError(
                f"--run {text!r}: {condition.column} is measured, so not known before a launch. Use a setting, such "
                "as amp_mode or micro_batch_size."
            )
    return [one for one in choices if all(each.mask([one.columns[each.column]])[0] for each in conditions)]


def _listed(choices: Sequence[Choice]) -> str:
    return listed([f"{one.name} ({one.trial_id})" for one in choices], 8, "; ") or "none"


def _of_results(source: Path, device: str | None) -> list[tuple[TrialConfig, Sequence[str]]]:
    """Read the settings of every trial that could run where these results come from, with what tables call it."""
    from bench.report.configurations import configurations_of
    from bench.report.launches import load_launches
    from bench.sweep.fields import TrialConfig
    from bench.sweep.trial import resolve

    configs: list[tuple[TrialConfig, Sequence[str]]] = []
    texts: dict[str, list[str]] = {}
    for one in configurations_of(load_launches([source])):
        if one.row["outcome"] != "skipped" and one.row.get("config_json"):
            texts.setdefault(one.row["config_json"], []).append(one.name)
    for text, names in texts.items():
        try:
            config = TrialConfig.model_validate(json.loads(text))
        except ValueError:  # pydantic's, and that of what is no JSON
            raise BenchError(
                f"{source}: holds settings that this version of bench does not know, so it cannot run them. Give a "
                "sweep file instead."
            ) from None
        asked = config if device is None else config.model_copy(update={"device": device})
        configs.append((resolve(asked, "cpu"), names))  # fills in what an older version did not store
    return configs


def _of_sweep(source: Path, device: str | None) -> list[TrialConfig]:
    from bench.cli.load import load_for_device
    from bench.sweep.expand import expand
    from bench.sweep.trial import Search, Trial

    configs = []
    for point in expand(*load_for_device(source, device)):
        trials = point.candidates if isinstance(point, Search) else (point,) if isinstance(point, Trial) else ()
        configs += [trial.config for trial in trials]
    return configs
