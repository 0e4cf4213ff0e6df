"""Watch every step of an optimizer, and hold what it was given and what it did against one concatenated batch.

The reference is taken at the parameters the step starts from, so that no error of an earlier update is counted twice
and no rounding grows from update to update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from bench.check.contributions import contributions
from bench.check.optimizers import norm_of
from bench.check.oracle import Batch, set_concatenated_gradients

TOLERANCE = 1e-10
"""Largest relative error of a gradient or an applied update in float64."""
_ZERO = 1e-12
"""A gradient below this share of the whole is mathematically zero: what is left is rounding."""
_CLIP_EPS = 1e-6
"""torch divides by the norm plus this when it clips."""


@dataclass
class Seen:
    """State what was seen of one optimizer step."""

    lr: float
    """Learning rate it used."""
    gradient_error: float
    """Of the gradient it was given, relative to the reference's; infinite where no window was planned."""
    norm: float = 0.0
    """Norm of the reference gradient before clipping."""
    update_error: float = math.inf
    """Of the change it made to the parameters, relative to the reference's change."""
    shares: tuple[float, ...] | None = None
    """Weight of each sequence of the data set, as a multiple of what it should be in its own window; None when the
    gradient is right, or the model is too small to tell."""


@dataclass
class Watch:
    """Hold what is compared and what was seen; hooks into the optimizer from its making."""

    model: nn.Module
    optimizer: Optimizer
    reference: nn.Module
    """A copy of the model, moved to the model's parameters before each comparison."""
    reference_optimizer: Optimizer
    windows: Sequence[Sequence[Batch]]
    class_weights: Tensor | None = None
    clip_norm: float = math.inf
    seen: list[Seen] = field(default_factory=list)
    untrained: set[str] = field(default_factory=set)
    """Trainable parameters that the loss never depended on, in any window."""
    zero_by_analysis: dict[str, float] = field(default_factory=dict)
    """Parameters whose gradient was zero but for rounding in every window, with the largest share of the whole."""
    with_gradient: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.untrained = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        self._before: list[Tensor] = []
        self._handles = [
            self.optimizer.register_step_pre_hook(self._step_begin),
            self.optimizer.register_step_post_hook(self._step_end),
        ]

    def close(self) -> None:
        """Stop watching."""
        for handle in self._handles:
            handle.remove()

    @torch.no_grad()
    def _step_begin(self, *_: Any) -> None:
        for mine, its in zip(self.model.parameters(), self.reference.parameters(), strict=True):
            its.copy_(mine)
        for held, copied in zip(self.model.buffers(), self.reference.buffers(), strict=True):
            copied.copy_(held)
        self._before = [parameter.clone() for parameter in self.model.parameters()]
        lr = float(self.optimizer.param_groups[0]["lr"])
        if len(self.seen) >= len(self.windows):
            self.seen.append(Seen(lr, math.inf, shares=self._shares()))
            return
        window = self.windows[len(self.seen)]
        set_concatenated_gradients(self.reference, window, self.class_weights)
        gradients = [p.grad for p in self.reference.parameters() if p.grad is not None]
        norm = norm_of(gradients)
        self._note_parameters(norm)
        if norm + _CLIP_EPS > self.clip_norm:
            torch._foreach_mul_(gradients, self.clip_norm / (norm + _CLIP_EPS))
        error = self._gradient_error(norm_of(gradients))
        shares = self._shares() if error > TOLERANCE else None
        self.seen.append(Seen(lr, error, norm, shares=shares))

    @torch.no_grad()
    def _step_end(self, *_: Any) -> None:
        if len(self.seen) > len(self.windows):
            return
        if self.seen[-1].shares is not None:  # the reference's gradients were used up in finding out why
            set_concatenated_gradients(self.reference, self.windows[len(self.seen) - 1], self.class_weights)
        for group in self.reference_optimizer.param_groups:
            group["lr"] = self.seen[-1].lr
        self.reference_optimizer.step()
        after = list(self.model.parameters())
        right = list(self.reference.parameters())
        change = norm_of([its - before for its, before in zip(right, self._before, strict=True)])
        error = norm_of([mine - its for mine, its in zip(after, right, strict=True)])
        self.seen[-1].update_error = _ratio(error, change)
        self._before = []

    def _gradient_error(self, norm: float) -> float:
        pairs = zip(self.model.parameters(), self.reference.parameters(), strict=True)
        differences = [_zeros(mine) - _zeros(its) for mine, its in pairs if mine.requires_grad]
        return _ratio(norm_of(differences), norm)

    def _note_parameters(self, norm: float) -> None:
        for name, parameter in self.reference.named_parameters():
            if parameter.grad is None:
                continue
            self.untrained.discard(name)
            share = norm_of([parameter.grad]) / norm if norm else 0.0
            if share > _ZERO:
                self.with_gradient.add(name)
                self.zero_by_analysis.pop(name, None)
            elif name not in self.with_gradient:
                self.zero_by_analysis[name] = max(share, self.zero_by_analysis.get(name, 0.0))

    def _shares(self) -> tuple[float, ...] | None:
        given = [_zeros(parameter) for parameter in self.model.parameters()]
        return contributions(self.reference, given, self.windows, self.class_weights)


def _zeros(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _ratio(error: float, norm: float) -> float:
    if not math.isfinite(error):
        return math.inf
    return error / norm if norm > 0 else error
