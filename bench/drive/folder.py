"""A results folder from outside: whether this sweep may resume in it, and how an old one is set aside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.drive.lock import hold
from bench.errors import BenchError, StorageError
from bench.machine.environment import describe_machine, software_versions
from bench.record.atomic import words_of, write_atomically
from bench.record.columns import SCHEMA_VERSION
from bench.record.config_columns import corpus_name
from bench.record.journal import salvage_journal
from bench.record.paths import SweepPaths
from bench.record.variables import decisive_variables
from bench.sweep.expand import MachineFacts
from bench.sweep.fields import TrialConfig
from bench.sweep.hf.configuration import config_hash
from bench.sweep.models import own_functions
from bench.sweep.trial import Sweep
from bench.units import listed
from bench.workload.data.corpus import load_corpus
from bench.workload.own_files import own_code_hash

MEASUREMENT_VERSION = 3
"""Version of how numbers are made; raised whenever a change moves them. History in CHANGELOG.md, under Measurements."""

_LIMITS = {"rounds", "timeout_s", "start_timeout_s", "stall_timeout_s"}
"""Fields of measure that change which launches there are, or how long they may take, but no number."""


_COMPARED_BY_ENTRY = ("corpora", "environment", "measure", "schema_version", "user_code")
_SIGNS = ("journal.jsonl", "parts", "results.parquet")
"""Any of these makes a folder one of results, damaged or not."""
_LOGS = (".log", ".out", ".err")


def make_header(sweep: Sweep, configs: Iterable[TrialConfig], facts: MachineFacts) -> dict[str, Any]:
    """State the conditions under which every row of a folder must be measured."""
    configs = list(configs)
    read = [config for config in configs if config.data.factory is None]  # the user's own data are made in ranks alone
    sources = {json.dumps(config.data.model_dump(mode="json"), sort_keys=True): config for config in read}
    modules = {
        reference.partition(":")[0] for config in configs for reference in own_functions(config).values() if reference
    }
    own = {"user_code": {module: own_code_hash([module]) for module in sorted(modules)}} if modules else {}
    return {
        "kind": "header",
        "sweep": sweep.name,
        "schema_version": SCHEMA_VERSION,
        "measurement_version": MEASUREMENT_VERSION,
        "measure": sweep.spec.measure.model_dump(mode="json", exclude=_LIMITS),
        "torch": software_versions()["torch"],
        "device": facts.device,
        "environment": decisive_variables(os.environ, facts.device),
        "corpora": {corpus_name(config.data): load_corpus(config.data).content_hash for config in sources.values()},
        "models": {
            config.model.hf: config_hash(config.model.hf) for config in configs if isinstance(config.model.hf, str)
        },
        **own,
    }


def check_header(old: Mapping[str, Any], header: Mapping[str, Any], folder: Path) -> None:
    """Refuse to mix rows measured under other conditions.

    New axis values extend a sweep, and so may new corpora and functions of the user's own; known ones must not have
    changed. Conditions
    that an older version did not write count as equal.

    Raises:
        BenchError: The conditions differ; names each key with both values.
        StorageError: A newer version wrote the folder.
    """
    if old["schema_version"] > SCHEMA_VERSION:
        raise StorageError(
            f"{folder}: schema_version {old['schema_version']} is newer than {SCHEMA_VERSION}, the newest this bench "
            "writes. Use a newer bench, or another folder (--out)."
        )
    differing = {
        key: (old[key], header[key])
        for key in header
        if key not in ("corpora", "models", "environment", "measure", "schema_version", "user_code")
        and key in old
        and old[key] != header[key]
    }
    for name, now in header["measure"].items():
        if old["measure"].get(name, now) != now:
            differing[f"measure.{name}"] = (old["measure"][name], now)
    before = old.get("environment", header["environment"])
    for name in before.keys() | header["environment"].keys():
        values = (before.get(name, "not set"), header["environment"].get(name, "not set"))
        if values[0] != values[1]:
            differing[f"environment variable {name}"] = values
    for kind in ("corpora", "models"):
        for name, content_hash in header[kind].items():
            known = old.get(kind, {}).get(name, content_hash)
            if known != content_hash:
                differing[f"content of {name}"] = (known, content_hash)
    for name, now in header.get("user_code", {}).items():
        before = old.get("user_code", {}).get(name, now)
        if before != now:
            differing[f"code of {name}"] = (before, now)
    if differing:
        listed = "; ".join(f"{key} was {before} and is now {now}" for key, (before, now) in sorted(differing.items()))
        raise BenchError(
            f"{folder} holds rows measured under other conditions: {listed}. Rows of one folder must be comparable: "
            "use another folder (--out), or --fresh, which renames this one and keeps it."
        )


def keep_inputs(paths: SweepPaths, sweep: Sweep, facts: MachineFacts) -> None:
    """Keep the sweep file as run, and what the machine is.

    Raises:
        StorageError: The folder cannot be written.
    """
    machine = json.dumps(describe_machine(facts), indent=1).encode()
    for path, content in ((paths.sweep_file, sweep.text.encode()), (paths.environment, machine)):
        if not path.exists() or path.read_bytes() != content:
            write_atomically(path, content)


def require_no_strangers(folder: Path) -> None:
    """Refuse a folder that holds files of something else: results would lie among them, and --fresh would rename it.

    Hidden files, and the logs that a script directs there before the first sweep, do not count.

    Raises:
        BenchError: It does; names some of them.
    """
    if not folder.is_dir() or any((folder / name).exists() for name in _SIGNS):
        return
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    strangers = [name for name in names if not name.endswith(_LOGS)]
    if strangers:
        raise BenchError(
            f"{folder} holds {listed(strangers, 3)}, and no results. Name another folder with --out, a new or an empty "
            "one."
        )


def make_folder(folder: Path) -> None:
    """Make the folder.

    Raises:
        StorageError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {words_of(error, folder)}. Choose another with --out.") from error


def set_folder_aside(folder: Path) -> Path | None:
    """Rename a results folder so that a new one can begin; return its new name, or None when there was nothing.

    Raises:
        BenchError: It holds something else.
        LockedError: A sweep is writing it.
        StorageError: It cannot be renamed.
    """
    require_no_strangers(folder)
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    with hold(SweepPaths(folder).lock):
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        aside = folder.with_name(f"{folder.name}.{stamp}")
        number = 1
        while aside.exists():
            number += 1
            aside = folder.with_name(f"{folder.name}.{stamp}-{number}")
        try:
            folder.rename(aside)
        except OSError as error:
            raise StorageError(f"{folder} cannot be renamed to {aside.name}: {error.strerror}.") from error
    for leftover in aside.glob(f"{SweepPaths(folder).lock.name}*"):
        leftover.unlink(missing_ok=True)
    return aside


def repair_folder(folder: Path) -> list[str]:
    """Keep the intact lines of a damaged journal, and a copy of the damaged file; return what was done, in words.

    Raises:
        LockedError: A sweep is writing the folder.
        StorageError: The folder cannot be written.
    """
    paths = SweepPaths(folder)
    if not paths.journal.exists():
        return []
    with hold(paths.lock):
        damaged = salvage_journal(paths.journal)
    if not damaged:
        return ["the journal is intact: nothing to repair"]
    listed = ", ".join(str(number) for number in damaged)
    lines = "line" if len(damaged) == 1 else "lines"
    return [f"removed damaged {lines} {listed} from {paths.journal}; the damaged file is kept beside it"]
