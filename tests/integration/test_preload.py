"""The fork server has loaded what a rank needs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.drive.work import PRELOADED
from bench.launch.launcher import Launcher
from tests import rank_that_lists_modules

pytestmark = [pytest.mark.slow, pytest.mark.ddp]


def test_rank_imports_nothing_of_ours_after_it_was_forked(lab: Any) -> None:
    """What it imports costs time in every rank of every launch, of trials and of proofs."""
    lab.launcher = Launcher(rank_function=rank_that_lists_modules.run, preload=PRELOADED)
    sweep = lab.sweep(lambda document: document.update(axes={"micro_batch_size": [2]}), world_size=2)
    lab.run(sweep, prove=True)
    lists = sorted((lab.folder / "results" / "logs").glob("*/imported-*.json"))
    assert len(lists) == 1 + 2 + 2, "a proof on one rank, one on two, and a trial on two"
    for path in lists:
        ours = [name for name in json.loads(path.read_text()) if name.split(".")[0] == "bench"]
        assert ours == [], path.parent.name
