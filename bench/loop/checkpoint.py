"""State at an update boundary, from which training resumes exactly, and the hook that waits for the boundary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bench.loop.loop import AccumulationLoop
from bench.loop.observer import NoObserver, UpdateResult


class CheckpointHook(NoObserver):
    """Save at update boundaries: every so many updates, and after the update under way whenever asked; an observer.

    A window that is cut off would lose its gradients, so a request inside one, from a signal handler or a timer, waits
    for its end. Skipped and empty updates are boundaries too.

    Args:
        save: Called with the number of updates completed so far, applied or not; gives `save_state(...)` to
            `torch.save`, as a rule.
        every_updates: How often to save without being asked; None only when asked [updates].

    Raises:
        ValueError: every_updates is below 1.
    """

    def __init__(self, save: Callable[[int], None], every_updates: int | None = None) -> None:
        if every_updates is not None and every_updates < 1:
            raise ValueError(f"every_updates = {every_updates} must be at least 1, or None to save only when asked.")
        self._save = save
        self._every_updates = every_updates
        self._is_asked = False

    def ask(self) -> None:
        """Ask for a checkpoint; safe at any time, in a signal handler too."""
        self._is_asked = True

    def update_end(self, result: UpdateResult) -> None:
        """Save if it is time or somebody asked."""
        done = result.plan.update + 1
        is_due = self._every_updates is not None and done % self._every_updates == 0
        if is_due or self._is_asked:
            self._is_asked = False
            self._save(done)


def save_state(loop: AccumulationLoop, model: nn.Module) -> dict[str, Any]:
    """Collect everything the next update depends on, but the data: give it to `torch.save` [one rank].

    `CheckpointHook` calls it at the right moment. Continue with `windows(..., first_update=loop.next_update)` over the
    micro-batches that follow the first `loop.micro_batches_done`; a pure source, as that of `bench.rank.feed`, needs
    the update's number alone.

    Args:
        loop: Between two windows.
        model: The bare model, without the wrapper of several ranks.

    Raises:
        RuntimeError: Inside a window, whose gradients would be lost.
    """
    if loop.is_inside_window:
        raise RuntimeError("a checkpoint inside a window would lose its gradients. Save after the update.")
    return {
        "next_update": loop.next_update,
        "micro_batches_done": loop.micro_batches_done,
        "model": model.state_dict(),
        "optimizer": loop.optimizer.state_dict(),
        "schedule": None if loop.schedule is None else loop.schedule.state_dict(),
        "precision": loop.precision.state_dict(),
        "random_cpu": torch.get_rng_state(),
        "random_cuda": torch.cuda.get_rng_state(loop.device) if loop.device.type == "cuda" else None,
    }


def restore_state(loop: AccumulationLoop, model: nn.Module, state: dict[str, Any]) -> None:
    """Put a collected state back into a loop built alike [one rank]."""
    model.load_state_dict(state["model"])
    loop.optimizer.load_state_dict(state["optimizer"])
    if loop.schedule is not None:
        loop.schedule.load_state_dict(state["schedule"])
    loop.precision.load_state_dict(state["precision"])
    torch.set_rng_state(state["random_cpu"])
    if state["random_cuda"] is not None:
        torch.cuda.set_rng_state(state["random_cuda"], loop.device)
    loop.next_update = state["next_update"]
    loop.micro_batches_done = state["micro_batches_done"]
    loop.is_inside_window = False
