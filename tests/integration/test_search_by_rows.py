"""`{max: N}` believes the rows: what fits by its `fits`, and no single out-of-memory error beside somebody else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.record.journal import read_journal
from tests.integration import trivial

CAPACITY = 450
"""Of ten bytes a sequence and five more: 44 sequences end well, 42 leave 5 % free."""
SEARCH = trivial.sweep_of({"micro_batch_size": {"max": 256}}, {"global_batch_size": None, "accumulation_steps": 2})


def launcher_of(is_shared: Callable[[int, int], bool] = lambda size, visit: False) -> trivial.InstantLauncher:
    """Make up ranks; beside somebody else, of whom size and visit tell, only 20 sequences end well."""
    visits: Counter[int] = Counter()

    def answer(folder: Path, rank: int) -> dict[str, Any]:
        size = json.loads((folder / "trial.json").read_text())["config"]["micro_batch_size"]
        visits[size] += 1
        taken, shared = 10 * size + 5, is_shared(size, visits[size])
        is_ok = size <= 20 if shared else taken <= CAPACITY
        columns = {
            "device_capacity_bytes": CAPACITY,
            "host_peak_rss_bytes": taken,
            "alloc_retries": int(taken > 0.98 * CAPACITY),
            "flags": ["gpu_shared"] if shared else [],
        }
        end = {"outcome": "ok", "reason": None, "phase": None, "error_text": None}
        if not is_ok:
            end = {"outcome": "oom", "reason": "made up", "phase": "forward", "error_text": "made up"}
        return {**trivial.answer_of(folder, rank), **end, "columns": columns}

    return trivial.InstantLauncher(answer)


def launches_of(folder: Path) -> list[dict[str, Any]]:
    """Read the launches of a journal, each with the size that its row has."""
    rows = pd.read_parquet(folder / "results.parquet").set_index("trial_id")["micro_batch_size"]
    records = read_journal(folder / "journal.jsonl")
    return [{**record, "size": int(rows[record["trial_id"]])} for record in records if record["kind"] == "launch"]


def fitting_of(folder: Path) -> set[int]:
    """Read the sizes whose row fits."""
    rows = pd.read_parquet(folder / "results.parquet")
    return set(rows["micro_batch_size"][rows["fits"].eq(True)])


def test_search_goes_on_where_a_launch_ends_well_but_does_not_fit(tmp_path: Path) -> None:
    """44 end well with retried allocations, 43 without; the largest whose row fits is 42, and that is what is found."""
    folder = tmp_path / "results"
    summary = trivial.run(SEARCH, folder, launcher=launcher_of())
    launches = {launch["size"]: launch for launch in launches_of(folder)}
    assert max(fitting_of(folder)) == 42
    assert (launches[42]["fits"], launches[42]["compared_bytes"]) == (True, 425)
    assert (launches[43]["outcome"], launches[43]["fits"], launches[43]["compared_bytes"]) == ("ok", False, 435)
    assert sorted(launches)[:2] == [1, 8]
    assert summary.launched == len(launches) <= 5, "the line is drawn against the limit of the rule"


@pytest.mark.parametrize("first", [50, 21, 42])
def test_out_of_memory_beside_somebody_else_is_tried_once_more(tmp_path: Path, first: int) -> None:
    """F36: the second launch decides, and the search finds what fits when nobody else is there."""
    folder = tmp_path / "results"
    launcher = launcher_of(lambda size, visit: visit == 1 and 21 <= size <= first)
    trivial.run(SEARCH, folder, launcher=launcher)
    launches = launches_of(folder)
    assert max(fitting_of(folder)) == 42
    disturbed = [launch["size"] for launch in launches if "gpu_shared" in launch.get("flags", ())]
    assert disturbed
    assert {size: sum(launch["size"] == size for launch in launches) for size in disturbed} == dict.fromkeys(
        disturbed, 2
    )


def test_search_beside_somebody_who_stays_ends_and_its_rows_say_so(tmp_path: Path) -> None:
    """Twice at most a size; what was found is what fits beside them."""
    folder, progress = tmp_path / "results", trivial.Quiet()
    trivial.run(SEARCH, folder, launcher=launcher_of(lambda size, visit: True), progress=progress)
    assert max(fitting_of(folder)) == 20
    assert set(Counter(launch["size"] for launch in launches_of(folder)).values()) == {2}
    reasons = {row["reason"] for row in progress.rows if row["outcome"] == "oom"}
    assert reasons == {"made up; another process used the GPU meanwhile: without it, this may fit"}
    assert trivial.run(SEARCH, folder, launcher=launcher_of()).launched == 0
