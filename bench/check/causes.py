"""Find out what a wrong gradient is made of, and say it only where it explains the gradient wholly.

A gradient of a mistaken accumulation is mostly a weighted sum of the sequences' own gradients: solving for the weights
by least squares tells a sequence that was left out, or came twice, from one that only weighs too much. Where such a sum
does not reach it, one thing more is tried at a time: what an earlier update left, a penalty on the weights, smoothed or
shifted labels, padding. What still does not reach it is only measured.
"""

# N = entries that the equations are made of, S = sequences with a target

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench.check.oracle import IGNORED, Batch, rows_of, set_concatenated_gradients, units_of
from bench.units import listed

_ENTRIES_AT_MOST = 20_000
"""Entries of the gradient that the equations are made of, evenly spread."""
EXPLAINED = 1e-6
"""Share of a gradient that may be left of it where it counts as explained; what is less is rounding."""
_CONTRIBUTES = 1e-6
_MOST_NAMES = 3


@dataclass(frozen=True)
class Cause:
    """State what a wrong gradient is made of."""

    words: str
    """What was found, in a clause; true where `shares` is null too."""
    shares: tuple[float, ...] | None = None
    """Weight of each sequence of the data set that has a target, as a multiple of what it should be in its own window;
    null where the gradient is no weighted sum of the sequences."""
    is_exact: bool = False
    """Whether the words explain all of the gradient."""
    has_left: bool = False
    """Whether the gradient of the update before is still in it."""


def explain(
    model: nn.Module,
    gradient: Sequence[Tensor],
    data: Sequence[Sequence[Batch]],
    window: Sequence[Batch] | None,
    class_weights: Tensor | None,
    left: Sequence[Tensor] | None = None,
    changed: Sequence[Batch] | None = None,
) -> Cause:
    """Explain a gradient. Leaves other gradients in `model` than it found.

    Args:
        model: At the parameters the gradient was taken at.
        gradient: One tensor per parameter of the model.
        data: All windows of the data set; the order of the sequences is theirs.
        window: The one that the gradient should be of; None where none was planned.
        class_weights: Of the loss.
        left: The gradient that the optimizer was given before, one tensor per parameter.
        changed: The window as the step left it in its own tensors; None where it is as it was.
    """
    names = [name for name, _ in model.named_parameters()]
    broken = [name for name, entry in zip(names, gradient, strict=True) if not bool(torch.isfinite(entry).all())]
    if broken:
        return Cause(f"the gradient of {listed(broken, _MOST_NAMES)} is not a number")
    given = _entries(gradient)
    if changed is not None:
        note = "the step changes its inputs in place"
        if units_of(changed, class_weights) and _rest(_gradient_of(model, changed, class_weights), given) <= EXPLAINED:
            return Cause(f"{note} and trains on what it made of them", is_exact=True)
    columns, right = _sequences(model, data, class_weights)
    found = _solve(columns, given)
    if found is not None and found[1] <= EXPLAINED:
        weights = tuple((found[0] / right).tolist())
        return Cause(_weights_in_words(weights), weights, is_exact=True)
    for words, extra, replaced in _hypotheses(model, data, window, class_weights, left):
        solved = _solve([*(columns if replaced is None else replaced), *extra], given)
        if solved is None or solved[1] > EXPLAINED:
            continue
        amount = float(solved[0][-1]) if extra else 1.0
        if words is not _leak:
            return Cause(words(amount), is_exact=True)
        shares = tuple((solved[0][: len(columns)] / right).tolist())
        return Cause(words(amount), shares, is_exact=True, has_left=True)
    if changed is not None:
        return Cause(
            f"{note}, which does not explain all of it; {_where(names, model, gradient, window, class_weights)}"
        )
    if found is None:
        return Cause("")
    return Cause(
        f"no weighting of the sequences gives this gradient; {_where(names, model, gradient, window, class_weights)}"
    )


def _weights_in_words(shares: Sequence[float]) -> str:
    counted = [share for share in shares if abs(share) > _CONTRIBUTES]
    if not counted:
        return "no sequence is in it"
    return f"sequences weigh {min(counted):.2f} to {max(counted):.2f} times what they should"


def _sequences(
    model: nn.Module, data: Sequence[Sequence[Batch]], class_weights: Tensor | None
) -> tuple[list[Tensor], Tensor]:
    """Give the gradient of each sequence (N,), and the weight (S,) that it should have."""
    columns, right = [], []
    for window in data:
        units = units_of(window, class_weights)
        for row in rows_of(window):
            own = units_of([row], class_weights)
            if own:
                columns.append(_gradient_of(model, [row], class_weights))
                right.append(own / units)
    return columns, torch.tensor(right, dtype=torch.float64)


def _gradient_of(model: nn.Module, batches: Sequence[Batch], class_weights: Tensor | None) -> Tensor:
    set_concatenated_gradients(model, batches, class_weights)
    return _taken(model)


def _taken(model: nn.Module) -> Tensor:
    return _entries([p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()])


def _solve(columns: Sequence[Tensor], given: Tensor) -> tuple[Tensor, float] | None:
    """Give the weights of the columns, and the share of the gradient they leave; None where they are too alike."""
    matrix = torch.stack(list(columns), dim=1)
    scale = matrix.norm(dim=0)
    if not bool((scale > 0).all()):
        return None
    if int(torch.linalg.matrix_rank(matrix / scale, rtol=1e-6)) < len(columns):
        return None
    found = torch.linalg.lstsq(matrix / scale, given[:, None]).solution[:, 0] / scale
    return found, _rest(matrix @ found, given)


def _rest(sum_of: Tensor, given: Tensor) -> float:
    size = float(given.norm())
    return float((sum_of - given).norm()) / size if size > 0 else float(sum_of.norm())


def _leak(amount: float) -> str:
    return f"the gradient of the update before is still in it, {amount:.2f} times"


Hypothesis = tuple[Callable[[float], str], list[Tensor], "list[Tensor] | None"]
"""(words from the weight of the last column, columns beside the sequences', columns instead of the sequences')."""


def _hypotheses(
    model: nn.Module,
    data: Sequence[Sequence[Batch]],
    window: Sequence[Batch] | None,
    class_weights: Tensor | None,
    left: Sequence[Tensor] | None,
) -> Iterator[Hypothesis]:
    if left is not None:
        yield _leak, [_entries(left)], None
    decay = _entries([p if p.requires_grad else torch.zeros_like(p) for p in model.parameters()])
    yield lambda amount: f"a penalty on the weights is in it, {amount:.2g} times the parameters", [decay], None
    if window is None:
        return
    # The columns are sums over a window's targets; the right gradient divides by their number.
    yield lambda _: "labels are smoothed: all classes are in it", [_of_all_classes(model, window)], None
    padding = [(inputs, _padding(inputs, targets)) for inputs, targets in window]
    if units_of(padding):
        yield lambda _: "ignored targets are trained on, as class 0", [_gradient_of(model, padding, None)], None
    for words, by in (("labels are shifted twice", 1), ("labels are shifted back", -1)):
        shifted = [[(inputs, _shift(targets, by)) for inputs, targets in each] for each in data]
        columns = [
            _gradient_of(model, [row], class_weights)
            for each in shifted
            for row in rows_of(each)
            if units_of([row], class_weights)
        ]
        if columns:
            yield lambda _, words=words: f"{words}, by one place", [], columns  # type: ignore[misc]


def _shift(targets: Tensor, by: int) -> Tensor:
    """Move targets to the left by so many places; what comes in is ignored."""
    moved = torch.full_like(targets, IGNORED)
    if by > 0:
        moved[:, :-by] = targets[:, by:]
    else:
        moved[:, -by:] = targets[:, :by]
    return moved


def _padding(inputs: Tensor, targets: Tensor) -> Tensor:
    return torch.where(targets == IGNORED, torch.zeros_like(inputs), torch.full_like(inputs, IGNORED))


def _of_all_classes(model: nn.Module, window: Sequence[Batch]) -> Tensor:
    """Give the gradient of the loss against all classes alike, at the targets that count (N,)."""
    for parameter in model.parameters():
        parameter.grad = None
    with torch.enable_grad():
        for inputs, targets in rows_of(window):
            if bool((targets != IGNORED).any()):
                logarithms = torch.log_softmax(model(inputs), dim=-1).mean(dim=-1)
                (-logarithms[targets != IGNORED].sum()).backward()  # type: ignore[no-untyped-call]
    return _taken(model)


def _where(
    names: Sequence[str],
    model: nn.Module,
    gradient: Sequence[Tensor],
    window: Sequence[Batch] | None,
    class_weights: Tensor | None,
) -> str:
    """Name the parameters in which a gradient differs most."""
    if window is None:
        return "no update was planned"
    set_concatenated_gradients(model, window, class_weights)
    sizes = [
        (float((given - (p.grad if p.grad is not None else torch.zeros_like(p))).norm()), name)
        for name, given, p in zip(names, gradient, model.parameters(), strict=True)
    ]
    largest = sorted(sizes, reverse=True)[:_MOST_NAMES]
    return f"it differs most in {', '.join(name for size, name in largest if size > 0)}"


def _entries(tensors: Sequence[Tensor]) -> Tensor:
    total = sum(tensor.numel() for tensor in tensors)
    stride = max(1, total // _ENTRIES_AT_MOST)
    return torch.cat([tensor.detach().flatten()[::stride].double() for tensor in tensors])
