"""Gradients over ranks: synchronised once per window, in its last backward on this rank."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.loop.fitness import NoGradient, explain_reentrant, refuse_unfit
from bench.loop.plan import WindowPlan
from bench.loop.replica import Replica

GradientSyncAxis = Literal["last", "every"]
UnusedParameters = Literal["refuse", "search"]


class GradientSync:
    """Run micro-steps on one rank: nothing to synchronise."""

    world_size = 1

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def micro_step(self, is_last: bool) -> AbstractContextManager[Any]:
        """Give the context for forward and backward of one micro-batch."""
        del is_last
        return nullcontext()

    def finish(self, plan: WindowPlan, micro_steps: int) -> None:
        """Note that this rank ran so many micro-steps of a window, all it had."""


class DdpGradientSync(GradientSync):
    """Run micro-steps on several ranks: all-reduce in the window's last backward only, or in every one when asked.

    Wraps the model in DistributedDataParallel. `no_sync` must cover the forward too: DistributedDataParallel decides
    there whether the coming backward reduces. A rank with less data, or none, takes part with a zero contribution.

    Args:
        model: The bare model, equal on all ranks, on its device.
        gradient_sync: last: one round a window; every: one round a micro-step.
        unused_parameters: refuse: every parameter must take part in the backward that synchronises, and one that does
            not is named; search: parameters may be left out of any micro-batch, at the price of a walk through the
            graph of every forward (DistributedDataParallel's `find_unused_parameters`).
        group: Ranks that train together; None for all.
        ddp_options: Passed on, such as `bucket_cap_mb` or `gradient_as_bucket_view`.

    Raises:
        ValueError: The model or an option cannot be right here; the text says what to do instead.
    """

    def __init__(
        self,
        model: nn.Module,
        gradient_sync: GradientSyncAxis = "last",
        *,
        unused_parameters: UnusedParameters = "refuse",
        group: dist.ProcessGroup | None = None,
        **ddp_options: Any,
    ) -> None:
        refuse_unfit(model, ddp_options)
        search = unused_parameters == "search"
        self._replica = Replica(model, search)
        self._ddp = DistributedDataParallel(
            self._replica, process_group=group, find_unused_parameters=search, **ddp_options
        )
        super().__init__(self._ddp)
        self.world_size = dist.get_world_size(group)
        self._every = gradient_sync == "every"

    def micro_step(self, is_last: bool) -> AbstractContextManager[Any]:
        """Give `no_sync` for all but the last micro-batch.

        Raises:
            ValueError: At its end, when a parameter was used in two reentrant checkpoints; at its beginning, when one
                took no part in the micro-batch before, which synchronised.
        """
        return self._explained() if is_last or self._every else self._ddp.no_sync()

    def finish(self, plan: WindowPlan, micro_steps: int) -> None:
        """Take part in the rounds that other ranks still owe this one, then see that every gradient was reduced.

        Raises:
            ValueError: A parameter took no part in a backward that synchronises; names it.
        """
        rounds, done = (plan.micro_steps, micro_steps) if self._every else (1, min(micro_steps, 1))
        for _ in range(rounds - done):
            self._ddp().backward()
        try:
            self._ddp._check_reducer_finalized()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise self._name_unused(str(error)) from error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in our words what DistributedDataParallel raises, whose advice does not hold here."""
        try:
            with explain_reentrant():
                yield
        except RuntimeError as error:
            if "finished reduction in the prior iteration" not in str(error):
                raise
            raise self._name_unused(str(error), "a micro-batch") from error

    def _name_unused(self, text: str, where: str = "a window's last micro-batch") -> NoGradient:
        """Turn DistributedDataParallel's parameter indices into names."""
        names = [name for name, parameter in self._replica.model.named_parameters() if parameter.requires_grad]
        found = re.search(r"did not receive grad for rank \d+: ([\d ]+)", text)
        indices = [int(index) for index in found.group(1).split()] if found else []
        unused = [names[index] for index in indices if index < len(names)]
        return NoGradient(
            unused,
            f"parameters without a gradient in {where}: {', '.join(unused) or text} - several ranks would take "
            "different steps - freeze them (requires_grad_(False)), use them in the loss, or pass "
            "unused_parameters='search'",
        )
