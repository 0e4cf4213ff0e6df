"""Updates under a witness, last in a launch: they divide the peak that earlier ones reached, and count what waits.

A witness is a mode in torch's dispatcher, and with any such mode autograd adds gradients up in memory of its own and
updates take longer. So nothing is decided here: an error in these updates, be it out of memory, leaves what they tell
unknown and the launch as it ended.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from bench.measure.device import Residents, Witness, Witnessed
from bench.measure.profiler import Part
from bench.measure.reductions import Reductions
from bench.rank.protocol import run_part
from bench.rank.workbench import Workbench
from bench.workload.facts import live_gradients, optimizer_tensors


@dataclass(frozen=True)
class WitnessedUpdates:
    """State what the witnessed updates told [one rank]."""

    parts: tuple[Part, ...]
    """One for each update."""
    updates: tuple[Witnessed, ...]
    """The last is of full rows: the largest window there can be. Empty where the model is compiled."""
    reductions: Reductions
    """Gradient reductions of these updates."""


def witness_updates(bench: Workbench, is_shortened: bool) -> WitnessedUpdates:
    """Witness one update of the largest window, with the micro-steps asked for; all ranks call it together.

    On several ranks one more comes first: the memory that DistributedDataParallel gathers gradients in is known only
    once an exchange was seen. A compiled model is not witnessed: under a mode torch runs it as eager code, whose memory
    is another. Its reductions are counted all the same.

    Args:
        bench: What ran.
        is_shortened: Whether the windows so far were cut short.
    """
    parts: list[Part] = []
    updates: list[Witnessed] = []
    if is_shortened:
        assert bench.trial.config.accumulation_steps is not None, "the trial is resolved"
        bench.feed.shorten(bench.trial.config.accumulation_steps)
    for is_last in (False, True)[bench.ranks.world_size == 1 :]:
        if is_last:
            bench.feed.want_full_rows()
        if bench.compile_watch is not None:
            with bench.reductions:
                parts.append(run_part(bench, "witness", 1))
            continue
        with _witness(bench) as witness, bench.reductions:
            bench.profiler.on_phase = witness.phase_begin
            parts.append(run_part(bench, "witness", 1))
            bench.profiler.on_phase = None
        updates.append(witness.result())
    return WitnessedUpdates(tuple(parts), tuple(updates), bench.reductions)


def _witness(bench: Workbench) -> AbstractContextManager[Witness]:
    """Make the witness of one update."""

    def residents() -> Residents:
        return Residents(
            model=[*bench.model.parameters(), *bench.model.buffers()],
            gradients=live_gradients(bench.model),
            optimizer_state=optimizer_tensors(bench.optimizer),
            ddp_buckets=bench.reductions.buckets(),
        )

    kept_on_host = [state["step"] for state in bench.optimizer.state.values() if torch.is_tensor(state.get("step"))]
    return bench.device.witness(residents, kept_on_host)
