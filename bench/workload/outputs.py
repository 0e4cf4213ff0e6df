"""What a model returned, read as logits and held against the targets before a loss is taken."""

# B = micro-batch [sequences], T = tokens of a row, C = classes or vocabulary

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from bench.errors import BenchError
from bench.loop import SummedCrossEntropy, logits_in


def logits_of(outputs: Any, targets: Tensor) -> Tensor:
    """Give the logits (B, C) or (B, T, C) for targets (B,) or (B, T): the output itself, or its `logits`.

    Raises:
        BenchError: The model returned something else; says what came, and what is expected.
    """
    found = logits_in(outputs)
    expected = f"logits ({', '.join(map(str, targets.shape))}, C), a number for each target and class"
    if not isinstance(found, Tensor):
        raise BenchError(
            f"the model returned {type(outputs).__name__} without logits. Expected: {expected}, as a tensor or under "
            "the name logits."
        )
    if found.shape[:-1] != targets.shape:
        loss = ", which looks like a loss" if found.dim() == 0 else ""
        raise BenchError(
            f"the model returned a tensor of shape {tuple(found.shape)}{loss}. Expected: {expected}, for targets of "
            f"shape {tuple(targets.shape)}."
        )
    return found


class TokenLoss(SummedCrossEntropy):
    """Sum the cross-entropy of any model that maps ids (B, T) to logits (B, T, V); see `SummedCrossEntropy`.

    Args:
        vocab_size: Every target is below it [ids].
    """

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self._vocab_size = vocab_size

    def __call__(self, model: nn.Module, micro_batch: tuple[Any, Tensor]) -> Tensor:
        """Run the model and sum its losses, in float32 at least [nats, this micro-batch].

        Raises:
            BenchError: What the model returned are no logits, or of too few classes.
        """
        inputs, targets = micro_batch
        logits = logits_of(model(inputs), targets)
        if logits.shape[-1] < self._vocab_size:
            raise BenchError(
                f"the model's logits have {logits.shape[-1]} classes, but the data have token ids up to "
                f"{self._vocab_size - 1}. Give the model a larger vocabulary (model.args), or use other data."
            )
        return self.of(logits, targets)
