"""Proofs of the accumulation, each once per configuration, in fresh processes beside the launches. No torch here."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.check.exchange.lines import ARITHMETIC, Line, failed, merge, overall, unproven
from bench.check.exchange.request import ProofRequest, request_of
from bench.drive.folder import make_folder
from bench.drive.work import PROOF
from bench.errors import BenchError
from bench.launch.gpu_release import wait_for_release
from bench.launch.interrupts import Interrupts
from bench.launch.launcher import LaunchEnd, Launcher
from bench.launch.outcome import decide
from bench.launch.watchdog import LaunchLimits
from bench.record.atomic import storage_error, write_atomically
from bench.record.paths import LaunchPaths, SweepPaths
from bench.sweep.trial import Trial

FORMAT = 3
"""Of the kept proofs; raised where a proof shows more than before, so that kept ones are made again."""
SWEEP_LIMIT_S = 60.0
"""Longest a proof may take inside a sweep [s]; there is one per configuration."""
_START_S = 30.0
"""What starting the processes may take beside, inside a sweep [s]."""
_GRACE_S = 2.0
"""How much longer a proof is waited for than it may take: what it proved until then is worth having [s]."""


def run_proof(
    request: ProofRequest,
    paths: Callable[[str], LaunchPaths],
    launcher: Launcher,
    interrupts: Interrupts | None = None,
    on_wait: Callable[[], None] = lambda: None,
    known: dict[str, list[Line]] | None = None,
    seconds_left: float | None = None,
    start_s: float = 0.0,
) -> list[Line] | None:
    """Prove one configuration: on one rank, and on two where it has more; None when it was interrupted.

    Its time limit holds for all of that together, the start of the processes included.

    Args:
        request: What to prove.
        paths: Makes the files of a launch from its key; what lies there is taken away.
        launcher: Starts the ranks.
        interrupts: Signals that end it.
        on_wait: Called while waiting.
        known: What was proved on one rank before, by key; what is proved here is added.
        seconds_left: Of the sweep's own time limit; None without one [s].
        start_s: What starting the processes may take beside the request's time limit [s].

    Raises:
        BenchError: The model or the step that is to be proved does not exist.
    """
    deadline_s = time.monotonic() + request.time_limit_s + start_s
    sweep_deadline_s = None if seconds_left is None else time.monotonic() + seconds_left

    def launch(of: ProofRequest) -> list[Line] | None:
        sweep_s = None if sweep_deadline_s is None else sweep_deadline_s - time.monotonic()
        within_s = deadline_s - time.monotonic()
        return _launch(of, paths(of.key()), launcher, interrupts, on_wait, within_s, sweep_s)

    known = {} if known is None else known
    # One rank synchronises nothing, so it is proved once for both ways to do it.
    alone = replace(request, world_size=1, gradient_sync="last")
    if alone.key() not in known:
        lines = launch(alone)
        if lines is None:
            return None
        known[alone.key()] = lines
    if request.ranks == 1:
        return known[alone.key()]
    together = launch(request)
    return None if together is None else merge([known[alone.key()], map(_of_ranks(request.ranks), together)])


def _of_ranks(ranks: int) -> Callable[[Line], Line]:
    """Make what says of a line that nothing of it was proved on so many ranks, whatever was on one."""
    return lambda line: (
        replace(line, words=f"on {ranks} ranks: {line.words}")
        if (line.name, line.verdict) == ("runs", "NOT PROVEN")
        else line
    )


def _launch(
    request: ProofRequest,
    files: LaunchPaths,
    launcher: Launcher,
    interrupts: Interrupts | None,
    on_wait: Callable[[], None],
    within_s: float,
    sweep_s: float | None,
) -> list[Line] | None:
    if within_s <= 0:
        return unproven(f"the time limit of {request.time_limit_s:g} s was used up before")
    shutil.rmtree(files.folder, ignore_errors=True)
    make_folder(files.folder)
    try:
        request.write(files.proof_file, within_s)
    except OSError as error:
        raise storage_error(files.proof_file, "cannot be written", error) from error
    total_s = within_s + _GRACE_S
    limits = LaunchLimits(total_s, total_s, total_s, sweep_s)
    end = launcher.run(PROOF, files, range(request.ranks), limits, on_wait, interrupts)
    if request.device == "cuda":
        # Or the next launch would take these processes for foreign ones.
        wait_for_release(end.pids, is_interrupted=lambda: interrupts is not None and interrupts.number is not None)
    if end.stopped is not None and end.stopped.outcome == "interrupted":
        return None
    return _lines_of(end, request)


def _lines_of(end: LaunchEnd, request: ProofRequest) -> list[Line]:
    """Join what the ranks found; a rank that left no answer proved nothing.

    Raises:
        BenchError: The model or the step that is to be proved does not exist.
    """
    documents = [rank.document for rank in end.ranks if rank.document is not None]
    for document in documents:
        if document.get("no_such_name"):
            raise BenchError(document["no_such_name"])
    if len(documents) == len(end.ranks) and all("lines" in document for document in documents):
        return merge([Line(**row) for row in document["lines"]] for document in documents)
    outcome = decide(end.ranks, end.stopped)
    if outcome.outcome in ("timeout", "hang"):
        return unproven(f"it did not end within {request.time_limit_s:g} s")
    if request.step is None and ":" not in request.model and request.own is None:
        return unproven(f"{outcome.outcome}: {outcome.reason}")
    return failed(f"{outcome.outcome}: {outcome.reason}")


class Proofs:
    """Prove each configuration of a sweep once, and keep the checklists in its folder."""

    def __init__(self, paths: SweepPaths, launcher: Launcher, interrupts: Interrupts | None = None) -> None:
        self._paths = paths
        self._launcher = launcher
        self._interrupts = interrupts
        self._known = _read(paths.proofs)
        self._alone: dict[str, list[Line]] = {}

    def for_trial(
        self, trial: Trial, on_wait: Callable[[], None] = lambda: None, seconds_left: float | None = None
    ) -> dict[str, Any]:
        """Give the columns `proof` and `proof_error` of a trial, proved now or before; none when interrupted."""
        request = request_of(trial.config, SWEEP_LIMIT_S)
        known = self._known.get(request.key())
        if known is None:
            lines = run_proof(
                request,
                self._paths.proof,
                self._launcher,
                self._interrupts,
                on_wait,
                self._alone,
                seconds_left,
                start_s=_START_S,
            )
            if lines is None:
                return {}
            known = {"request": vars(request), "verdict": overall(lines), "lines": [line.as_row() for line in lines]}
            self._known[request.key()] = known
            document = {
                "format": FORMAT,
                "torch": version("torch"),
                "sha256": _digest(self._known),
                "proofs": self._known,
            }
            write_atomically(self._paths.proofs, json.dumps(document, indent=1).encode())
        return columns_of(known)

    def why_arithmetic_is_wrong(self, trial: Trial) -> str | None:
        """Say so where the proof of a trial found that the device computes wrongly; None otherwise."""
        known = self._known.get(request_of(trial.config, SWEEP_LIMIT_S).key())
        return None if known is None else _arithmetic_fault(known)


def columns_of(proof: Mapping[str, Any]) -> dict[str, Any]:
    """Give the columns of a row from a kept proof."""
    figures = {line["name"]: line["figure"] for line in proof["lines"] if line["verdict"] != "NOT PROVEN"}
    error = figures.get("weighting")
    return {"proof": proof["verdict"], "proof_error": error if error is None or math.isfinite(error) else None}


def _arithmetic_fault(proof: Mapping[str, Any]) -> str | None:
    failed_words = [line["words"] for line in proof["lines"] if line["verdict"] == "FAIL"]
    return next((words for words in failed_words if words.startswith(ARITHMETIC)), None)


def _read(path: Path) -> dict[str, Any]:
    """Read kept proofs; those of another torch, without a verdict, damaged or unreadable are made again."""
    try:
        document = json.loads(path.read_text())
        known: dict[str, Any] = document["proofs"]
        is_ours = document["format"] == FORMAT and document["torch"] == version("torch")
        if not is_ours or document["sha256"] != _digest(known):
            return {}
        # A proof that lacked time or memory, or a sound device, may succeed now: each run tries it once.
        return {
            key: proof
            for key, proof in known.items()
            if proof["verdict"] != "NOT PROVEN" and _arithmetic_fault(proof) is None
        }
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _digest(proofs: Mapping[str, Any]) -> str:
    """Hash what the proofs say: a flipped bit in the file must not become a column of a row."""
    return hashlib.sha256(json.dumps(proofs, sort_keys=True).encode()).hexdigest()
