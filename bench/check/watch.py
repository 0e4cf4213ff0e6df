"""Watch every step of an optimizer, and hold what it was given and what it did against one concatenated batch.

The reference is taken at the parameters the step starts from, so that no error of an earlier update is counted twice
and no rounding grows from update to update. Its data are the check's own: what a step does to the tensors that it was
handed changes no reference. What becomes of the parameters between one update and the next is noted too.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from bench.check.causes import Cause, explain
from bench.check.optimizers import norm_of
from bench.check.oracle import Batch, set_concatenated_gradients, units_of
from bench.errors import BenchError

TOLERANCE = 1e-10
"""Largest relative error of a gradient or an applied update in float64."""
_ZERO = 1e-12
"""A gradient below this share of the whole is zero by analysis: what is left is rounding."""
_OPTIONS = ("momentum", "dampening", "nesterov", "weight_decay", "betas", "eps")
_CLIP_EPS = 1e-6
"""torch divides by the norm plus this when it clips."""


@dataclass
class Seen:
    """State what was seen of one optimizer step."""

    rates: tuple[float, ...]
    """Learning rate it used, of each group of parameters."""
    gradient_error: float
    """Of the gradient it was given, relative to the reference's; infinite where no window was planned."""
    window: int | None = None
    """Number of the window it was the update of, over all passes; null where none was planned."""
    norm: float = 0.0
    """Norm of the reference gradient before clipping."""
    given_norm: float = 0.0
    """Norm of the gradient it was given."""
    update_error: float = math.inf
    """Of the change it made to the parameters, relative to the reference's change."""
    cause: Cause | None = None
    """What the gradient is made of; null where it is right."""

    @property
    def lr(self) -> float:
        """Give the rate of the first group."""
        return self.rates[0]


@dataclass(frozen=True)
class Beside:
    """State a change of the parameters that no optimizer step made."""

    amount: float
    """Its norm, relative to the change of the update before it, else to the parameters."""
    of: str
    """What it is relative to, in words."""
    names: tuple[str, ...]
    """Parameters that it changed."""


@dataclass
class Watch:
    """Hold what is compared and what was seen; hooks into the optimizer from its making."""

    model: nn.Module
    optimizer: Optimizer
    reference: nn.Module
    """A copy of the model, moved to the model's parameters before each comparison."""
    reference_optimizer: Optimizer
    windows: Sequence[Sequence[Batch]]
    """Of all passes, those without any target too."""
    class_weights: Tensor | None = None
    clip_norm: float = math.inf
    passes: int = 1
    seen: list[Seen] = field(default_factory=list)
    """Steps that belong to a window with a target, or to none."""
    seen_empty: list[Seen] = field(default_factory=list)
    """Steps made for a window without any target."""
    is_broken_by_empty: bool = False
    """Whether such a window gave gradients that are no numbers."""
    beside: list[Beside] = field(default_factory=list)
    changed_options: set[str] = field(default_factory=set)
    """Settings of the optimizer that the step changed, beside the rate."""
    is_data_changed: bool = False
    """Whether the step changed what it was handed."""
    untrained: set[str] = field(default_factory=set)
    """Trainable parameters that the loss never depended on, in any window."""
    zero_by_analysis: dict[str, float] = field(default_factory=dict)
    """Parameters whose gradient was zero but for rounding in every window, with the largest share of the whole."""
    with_gradient: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.untrained = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        self._names = [name for name, _ in self.model.named_parameters()]
        self._is_empty = [units_of(window, self.class_weights) == 0 for window in self.windows]
        self._position, self._stop = 0, len(self.windows)
        self._handed: dict[int, list[Batch]] = {}
        self._before: list[Tensor] = []
        self._right: list[Tensor | None] = []
        self._given: list[Tensor] | None = None
        self._open: Seen | None = None
        self._kept: dict[str, Any] | None = None
        self._change = 0.0
        self._rest = self._snapshot()
        self._handles = [
            self.optimizer.register_step_pre_hook(self._step_begin),
            self.optimizer.register_step_post_hook(self._step_end),
        ]

    def close(self) -> None:
        """Stop watching."""
        for handle in self._handles:
            handle.remove()

    @property
    def planned(self) -> list[int]:
        """Number the windows that have a target, each an update to make."""
        return [number for number, is_empty in enumerate(self._is_empty) if not is_empty]

    @property
    def per_pass(self) -> int:
        """Count the windows of one pass."""
        return len(self.windows) // self.passes

    def begin_call(self, first: int, count: int, handed: dict[int, list[Batch]]) -> None:
        """Note which windows a call of the step is to train on, and the tensors it is handed for each."""
        self._position, self._stop, self._handed = first, first + count, handed

    @torch.no_grad()
    def end_call(self) -> None:
        """Note what a call left: changed parameters, changed data."""
        self._note_beside()
        self._rest = self._snapshot()
        self.is_data_changed = self.is_data_changed or any(self._changed(number) for number in self._handed)

    def _step_begin(self, _: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._open = None
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            self._judge()
            return None

        def watched() -> Any:
            value = closure()
            self._judge()
            return value

        if len(args) > 1:
            return (args[0], watched, *args[2:]), kwargs
        return args, kwargs | {"closure": watched}

    @torch.no_grad()
    def _judge(self) -> None:
        """Hold the gradient that lies ready against the reference's."""
        if self._open is not None:  # a closure that is called again: its last gradient counts
            (self.seen if self.seen and self.seen[-1] is self._open else self.seen_empty).pop()
            self._position = self._open.window if self._open.window is not None else self._position
        rest = self._rest
        self._note_beside()
        self._before = self._snapshot()
        given = [_zeros(parameter).clone() for parameter in self.model.parameters()]
        rates = tuple(float(group["lr"]) for group in self.optimizer.param_groups)
        number = self._next_window(given)
        seen = Seen(rates, math.inf, number, given_norm=norm_of(given))
        self._open = seen
        if number is not None and self._is_empty[number]:
            self._judge_empty(seen, given)
        elif number is None:
            self._move_reference(self._before)
            seen.cause = self._explained(given, None)
            self.seen.append(seen)
        else:
            self._judge_window(seen, number, given, rest)
            self.seen.append(seen)
        self._given = given

    def _next_window(self, given: Sequence[Tensor]) -> int | None:
        """Take the next window; one without any target is passed over by a step that has a gradient."""
        says_nothing = not any(bool(entry.any()) for entry in given) or not _is_finite(given)
        while self._position < self._stop and self._is_empty[self._position] and not says_nothing:
            self._position += 1
        if self._position >= self._stop:
            return None
        self._position += 1
        return self._position - 1

    def _judge_empty(self, seen: Seen, given: Sequence[Tensor]) -> None:
        """Let a window without any target make an update of nothing: its concatenated batch has no mean."""
        self.seen_empty.append(seen)
        pairs = zip(self.model.parameters(), self.reference.parameters(), strict=True)
        self._right = [None if mine.grad is None else torch.zeros_like(its) for mine, its in pairs]
        seen.gradient_error = 0.0
        if not _is_finite(given):
            self.is_broken_by_empty = True
            self._kept = copy.deepcopy(self.optimizer.state_dict())
        self._move_reference(self._before)

    def _judge_window(self, seen: Seen, number: int, given: Sequence[Tensor], rest: Sequence[Tensor]) -> None:
        window = self.windows[number]
        seen.norm, seen.gradient_error = self._compare(self._before, window, given)
        if seen.gradient_error > TOLERANCE and not _are_equal(self._before, rest):
            # Parameters may have been changed between the backward and the step: then the gradient is of those before.
            norm, error = self._compare(rest, window, given)
            if error <= TOLERANCE:
                seen.norm, seen.gradient_error = norm, error
            else:
                self._compare(self._before, window, given)
        self._right = [None if p.grad is None else p.grad.clone() for p in self.reference.parameters()]
        if seen.gradient_error > TOLERANCE:
            seen.cause = self._explained(given, number)
        self._move_reference(self._before)

    def _compare(self, at: Sequence[Tensor], window: Sequence[Batch], given: Sequence[Tensor]) -> tuple[float, float]:
        """Put the reference's gradient at these parameters in place; give its norm, and the error of what was given."""
        self._move_reference(at)
        set_concatenated_gradients(self.reference, window, self.class_weights)
        gradients = [p.grad for p in self.reference.parameters() if p.grad is not None]
        norm = norm_of(gradients)
        self._note_parameters(norm)
        if norm + _CLIP_EPS > self.clip_norm:
            torch._foreach_mul_(gradients, self.clip_norm / (norm + _CLIP_EPS))
        return norm, self._gradient_error(given, norm_of(gradients))

    def _explained(self, given: Sequence[Tensor], number: int | None) -> Cause:
        changed = None if number is None else self._changed(number)
        first = 0 if number is None else number - number % self.per_pass
        data = self.windows[first : first + self.per_pass]
        window = None if number is None else self.windows[number]
        return explain(self.reference, given, data, window, self.class_weights, self._given, changed)

    def _changed(self, number: int) -> list[Batch] | None:
        """Give a window as the step left it in the tensors it was handed; None where it is as it was."""
        handed = self._handed.get(number)
        if handed is None:
            return None
        same = all(
            torch.equal(mine, its)
            for pair, right in zip(handed, self.windows[number], strict=True)
            for mine, its in zip(pair, right, strict=True)
        )
        return None if same else handed

    @torch.no_grad()
    def _step_end(self, *_: Any) -> None:
        seen, self._open = self._open, None
        if seen is None:
            return
        if self._kept is not None:
            self._undo(self._kept)
        elif seen.window is not None:
            for parameter, gradient in zip(self.reference.parameters(), self._right, strict=True):
                parameter.grad = gradient
            groups = zip(self.reference_optimizer.param_groups, self.optimizer.param_groups, seen.rates, strict=False)
            for group, own, rate in groups:
                group["lr"] = rate
                self.changed_options |= {name for name in _OPTIONS if group.get(name) != own.get(name)}
            self.reference_optimizer.step()
            after, right = self._snapshot(), list(self.reference.parameters())
            self._change = norm_of([its - before for its, before in zip(right, self._before, strict=True)])
            error = norm_of([mine - its for mine, its in zip(after, right, strict=True)])
            seen.update_error = _ratio(error, self._change)
        self._rest = self._snapshot()
        self._before, self._right, self._kept = [], [], None

    def _undo(self, state: dict[str, Any]) -> None:
        """Go on from before a step whose gradients were no numbers: what comes after it is to be proved too."""
        for parameter, before in zip(self.model.parameters(), self._before, strict=True):
            parameter.copy_(before)
        self.optimizer.load_state_dict(state)

    def _snapshot(self) -> list[Tensor]:
        parameters = list(self.model.parameters())
        if [tuple(p.shape) for p in parameters] != [tuple(p.shape) for p in self.reference.parameters()]:
            raise BenchError("the step took parameters from the model, or gave it others: the proof cannot follow")
        return [parameter.detach().clone() for parameter in parameters]

    def _move_reference(self, at: Sequence[Tensor]) -> None:
        for parameter, value in zip(self.reference.parameters(), at, strict=True):
            parameter.copy_(value)
        for held, copied in zip(self.model.buffers(), self.reference.buffers(), strict=True):
            copied.copy_(held)

    def _note_beside(self) -> None:
        """Note what changed the parameters since the last optimizer step, or since the call began."""
        now = self._snapshot()
        if _are_equal(now, self._rest):
            return
        differences = [mine - rest for mine, rest in zip(now, self._rest, strict=True)]
        scale, of = (
            (self._change, "the update's own change") if self._change else (norm_of(self._rest), "all parameters")
        )
        amount = norm_of(differences) / scale if scale else math.inf
        if amount > TOLERANCE:
            names = [name for name, difference in zip(self._names, differences, strict=True) if bool(difference.any())]
            self.beside.append(Beside(amount, of, tuple(names)))
        self._rest = now

    def _gradient_error(self, given: Sequence[Tensor], norm: float) -> float:
        triples = zip(given, self.model.parameters(), self.reference.parameters(), strict=True)
        differences = [entry - _zeros(its) for entry, mine, its in triples if mine.requires_grad]
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


def _are_equal(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(torch.equal(mine, its) for mine, its in zip(some, others, strict=True))


def _is_finite(tensors: Sequence[Tensor]) -> bool:
    return all(bool(torch.isfinite(entry).all()) for entry in tensors)


def _zeros(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach()


def _ratio(error: float, norm: float) -> float:
    if not math.isfinite(error):
        return math.inf
    return error / norm if norm > 0 else error
