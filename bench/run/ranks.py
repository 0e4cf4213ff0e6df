"""How the ranks of one trial reach each other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from bench.loop.agreement import Agreement, GlooAgreement, SingleRankAgreement


@dataclass(frozen=True)
class Ranks:
    """Hold this rank's place among the ranks of its trial."""

    rank: int
    world_size: int
    host_group: dist.ProcessGroup | None
    """A gloo group for what hosts tell each other: counts, losses, barriers; None on one rank."""

    @classmethod
    def join(cls, rank: int, world_size: int, device_type: str, rendezvous: Path, timeout_s: float) -> Ranks:
        """Join the other ranks through a file on this machine; every later wait has the time limit."""
        if world_size == 1:
            return cls(rank, world_size, None)
        # A host need not be able to resolve its own name: ranks of one machine meet on loopback.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        timeout = timedelta(seconds=timeout_s)
        dist.init_process_group(
            "nccl" if device_type == "cuda" else "gloo",
            init_method=f"file://{rendezvous}",
            rank=rank,
            world_size=world_size,
            timeout=timeout,
        )
        return cls(rank, world_size, dist.new_group(backend="gloo", timeout=timeout))

    def agreement(self, full_sequences: int) -> Agreement:
        """Make the agreement on windows."""
        if self.host_group is None:
            return SingleRankAgreement(full_sequences)
        return GlooAgreement(full_sequences, self.host_group)

    def barrier(self) -> None:
        """Wait for all ranks, on the hosts."""
        if self.host_group is not None:
            dist.barrier(self.host_group)

    def sum(self, values: list[float]) -> list[float]:
        """Add up each value over the ranks, on the hosts, in float64."""
        if self.host_group is None:
            return values
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total, group=self.host_group)
        result: list[float] = total.tolist()
        return result
