"""One rank of one proof: `proof.json` in, `rank-N.json` out."""

from __future__ import annotations

import os
import time
import traceback
from typing import Any

import torch
from torch import nn

from bench.check.cases import CASES
from bench.check.exchange.lines import Line, failed, unproven
from bench.check.exchange.request import ProofRequest
from bench.check.oracle import concatenated_loss
from bench.check.prove import prove
from bench.check.subject import Subject
from bench.launch.heartbeat import Heartbeat
from bench.loop import Precision, SummedCrossEntropy
from bench.rank.out_of_memory import classify_error
from bench.rank.quality import summed_loss
from bench.rank.ranks import Ranks
from bench.rank.worker import write_document
from bench.record.paths import LaunchPaths
from bench.workload.user_code import look_in_current_folder
from bench.workload.user_errors import NoSuchNameError

_PEER_S = 60.0
"""How much longer than its time limit a rank waits for a peer, by which time the driver has ended both [s]."""


def prove_rank(paths: LaunchPaths, rank: int) -> str:
    """Prove and write the checklist; never raises what the user's code can raise. Return ok: a verdict is a result.

    What was asked for and does not exist is written under `no_such_name`, beside no line.
    """
    paths = LaunchPaths(paths.folder.absolute())  # the user's modules may be found from another folder
    try:
        lines = _prove(ProofRequest.read(paths.proof_file), paths, rank)
    except NoSuchNameError as error:
        _finish(paths, rank, [], no_such_name=str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        traceback.print_exc()
        # Before the block ends: with the error go its frames, and after an error of the GPU that stays, freeing their
        # page-locked memory ends the process.
        _finish(paths, rank, _lines_of(error))
    else:
        _finish(paths, rank, lines)
    return "ok"


def _lines_of(error: BaseException) -> list[Line]:
    """Say what an error proves: that the configuration fails, or nothing where memory ran out and may not again."""
    classes = [cls.__name__ for cls in type(error).__mro__]
    text = str(error).strip()
    where = {"oom": "the GPU", "oom_host": "the host"}.get(classify_error(classes, text, "cuda"))
    if where is not None:
        return unproven(f"{where} ran out of memory")
    return failed(f"{classes[0]}: {text.splitlines()[0] if text else 'no message'}")


def _finish(paths: LaunchPaths, rank: int, lines: list[Line], no_such_name: str | None = None) -> None:
    document: dict[str, Any] = {
        "rank": rank,
        "outcome": "ok",
        "no_such_name": no_such_name,
        "lines": [line.as_row() for line in lines],
        "time": time.monotonic(),
    }
    write_document(paths.rank_file(rank), document)


def _prove(request: ProofRequest, paths: LaunchPaths, rank: int) -> list[Line]:
    heartbeat = Heartbeat(paths.heartbeat(rank))
    # Several threads gain little on matrices so small, and on a busy machine they wait for each other without end.
    torch.set_num_threads(1)
    if request.working_directory:
        os.chdir(request.working_directory)
        look_in_current_folder()
    # Ranks meet over gloo whatever the device: float64 runs on the CPU.
    heartbeat.beat("join")
    # The driver ends what takes too long: a limit of the ranks' own would make a slow peer an error of the step.
    ranks = Ranks.join(rank, request.ranks, "cpu", paths.rendezvous, request.time_limit_s + _PEER_S)
    heartbeat.beat("prove")
    return prove(request, ranks.agreement(), validate)


def validate(model: nn.Module, subject: Subject) -> tuple[float, float]:
    """Give the mean validation loss of the first case, cut into micro-batches and in one batch [nats per unit]."""
    weights = None if subject.class_weights is None else subject.class_weights.double()
    batches = CASES[0].micro_batches(subject.vocab_size, subject.seed)
    loss = SummedCrossEntropy(weights)
    total = summed_loss(model, loss, batches, Precision("fp32", "cpu"), torch.device("cpu"))
    with torch.no_grad():
        whole = concatenated_loss(model.eval(), batches, weights).item()
    return total / sum(loss.count(batch).units for batch in batches), whole
