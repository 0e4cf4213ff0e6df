"""How the ranks of one trial reach each other."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from bench.loop import Agreement, GlooAgreement, SingleRankAgreement, diverged_parameters


@dataclass(frozen=True)
class Ranks:
    """Hold this rank's place among the ranks of its trial."""

    rank: int
    world_size: int
    host_group: dist.ProcessGroup | None
    """A gloo group for what hosts tell each other: counts, losses, barriers; None on one rank."""

    @classmethod
    def join(cls, rank: int, world_size: int, device_type: str, rendezvous: Path, timeout_s: float) -> Ranks:
        """Join the other ranks; every later wait has the time limit.

        Ranks of one node meet at the file that `rendezvous` names. Where torch's elastic agent starts them, on several
        nodes, its store would take this one's place.
        """
        if world_size == 1:
            return cls(rank, world_size, None)
        # A host need not be able to resolve its own name: ranks of one machine meet on loopback.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback_interface())
        timeout = timedelta(seconds=timeout_s)
        place = os.fsdecode(rendezvous.read_bytes())
        # A store, not a file:// address: in an address a relative path loses its first folder, and a # the rest.
        dist.init_process_group(
            "nccl" if device_type == "cuda" else "gloo",
            store=dist.FileStore(place, world_size),  # type: ignore[attr-defined]
            rank=rank,
            world_size=world_size,
            timeout=timeout,
        )
        return cls(rank, world_size, dist.new_group(backend="gloo", timeout=timeout))

    def agreement(self) -> Agreement:
        """Make the agreement on windows."""
        return SingleRankAgreement() if self.host_group is None else GlooAgreement(self.host_group)

    def diverged_parameters(self, model: nn.Module) -> list[str]:
        """Name the parameters that are not bit-equal on all ranks."""
        return [] if self.host_group is None else diverged_parameters(model, self.host_group)

    def barrier(self) -> None:
        """Wait for all ranks, on the hosts."""
        if self.host_group is not None:
            dist.barrier(self.host_group)

    def sum(self, values: list[float]) -> list[float]:
        """Add up each value over the ranks, on the hosts, in float64."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def max(self, values: list[float]) -> list[float]:
        """Find the largest of each value over the ranks, on the hosts, in float64."""
        return self._reduce(values, dist.ReduceOp.MAX)

    def from_rank0(self, value: float) -> float:
        """Give every rank what rank 0 has, over the hosts: the others' values are not looked at."""
        if self.host_group is None:
            return value
        told = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(told, src=0, group=self.host_group)
        return float(told)

    def _reduce(self, values: list[float], operation: Any) -> list[float]:
        if self.host_group is None:
            return values
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total, operation, group=self.host_group)
        result: list[float] = total.tolist()
        return result


def loopback_interface() -> str:
    """Name the loopback interface: lo on Linux, lo0 on macOS."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in ("lo", "lo0") if name in names), "lo")
