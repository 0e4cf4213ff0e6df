"""State at an update boundary, from which training goes on as if it had never stopped."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bench.loop.loop import AccumulationLoop


def save_state(loop: AccumulationLoop, model: nn.Module) -> dict[str, Any]:
    """Collect everything the next update depends on, but the data: give it to `torch.save` [one rank].

    An observer's `update_end` is the place for it: it is called after a completed update only. Continue with
    `windows(..., first_update=loop.next_update)` over the data that follows.

    Args:
        loop: Between two windows.
        model: The bare model, without the wrapper of several ranks.

    Raises:
        RuntimeError: Inside a window, whose gradients would be lost.
    """
    if loop.is_inside_window:
        raise RuntimeError("a checkpoint inside a window would lose its gradients - save after the update")
    return {
        "next_update": loop.next_update,
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
    loop.is_inside_window = False
