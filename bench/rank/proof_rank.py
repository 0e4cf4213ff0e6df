"""One rank of one proof: `proof.json` in, `rank-N.json` out."""

from __future__ import annotations

import os
import sys
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
from bench.check.user_errors import NoSuchNameError
from bench.launch.heartbeat import Heartbeat
from bench.loop import Precision, SummedCrossEntropy
from bench.rank.quality import summed_loss
from bench.rank.ranks import Ranks
from bench.rank.worker import write_document
from bench.record.paths import LaunchPaths


def prove_rank(paths: LaunchPaths, rank: int) -> str:
    """Prove and write the checklist; never raises what the user's code can raise. Return ok: a verdict is a result.

    What was asked for and does not exist is written under `no_such_name`, beside no line.
    """
    lines: list[Line] = []
    no_such_name: str | None = None
    try:
        lines = _prove(ProofRequest.read(paths.proof_file), paths, rank)
    except NoSuchNameError as error:
        no_such_name = str(error)
    except KeyboardInterrupt:
        raise
    except MemoryError:
        lines = unproven("the host ran out of memory")
    except BaseException as error:
        traceback.print_exc()
        lines = failed(f"{type(error).__name__}: {error}")
    document: dict[str, Any] = {
        "rank": rank,
        "outcome": "ok",
        "no_such_name": no_such_name,
        "lines": [line.as_row() for line in lines],
        "time": time.monotonic(),
    }
    write_document(paths.rank_file(rank), document)
    return "ok"


def _prove(request: ProofRequest, paths: LaunchPaths, rank: int) -> list[Line]:
    heartbeat = Heartbeat(paths.heartbeat(rank))
    # Several threads gain little on matrices so small, and on a busy machine they wait for each other without end.
    torch.set_num_threads(1)
    if request.working_directory:
        # A user's package is found from the folder the command was called in, as `python -m` finds it.
        os.chdir(request.working_directory)
        sys.path.insert(0, request.working_directory)
    # Ranks meet over gloo whatever the device: float64 runs on the CPU.
    heartbeat.beat("join")
    ranks = Ranks.join(rank, request.ranks, "cpu", paths.rendezvous, request.time_limit_s)
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
