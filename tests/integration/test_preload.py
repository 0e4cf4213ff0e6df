"""The fork server has loaded what a rank needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from bench.drive.work import PRELOADED
from bench.launch.launcher import Launcher
from tests import rank_that_lists_modules

pytestmark = [pytest.mark.slow, pytest.mark.ddp]

LOOK = """
import json, os
import bench.rank.preload
import torch
print(json.dumps([len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"), torch.get_num_threads()]))
"""


@pytest.mark.parametrize("asked", [None, "2"])
def test_nothing_that_is_loaded_runs_a_thread_and_ranks_may_have_theirs(asked: str | None) -> None:
    """Only one thread survives a fork, and each OpenBLAS starts one for every further core, or as many as asked."""
    names = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    told = names if asked is None else names | {"OPENBLAS_NUM_THREADS": asked}
    done = subprocess.run([sys.executable, "-c", LOOK], env=told, capture_output=True, text=True, check=True)
    threads, left, torch_threads = json.loads(done.stdout)
    plain = [sys.executable, "-c", "import torch; print(torch.get_num_threads())"]
    usual = int(subprocess.run(plain, env=told, capture_output=True, text=True, check=True).stdout)
    assert (threads, left, torch_threads) == (1, asked, usual)


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
