"""What a trial is trained on, and how batches are made of it and their loss summed, whatever the source."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from bench.loop import SummedCrossEntropy
from bench.loop.window import LossSum
from bench.sweep.fields import TrialConfig
from bench.sweep.models import model_name, shape_of
from bench.workload.batch_loss import BatchLoss, LossOfBatches, make_loss
from bench.workload.data.corpus import load_corpus
from bench.workload.data.sequences import SequenceSource
from bench.workload.micro_batches import MicroBatch, lay_out
from bench.workload.outputs import TokenLoss
from bench.workload.samples import NamedTokens, SampleBatch, SampleLayout, SampleSource, make_collate, make_samples


class LaidOut(Protocol):
    """A micro-batch with its counts, such as `MicroBatch`."""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Name its tensors."""

    @property
    def sequences(self) -> int:
        """Count its sequences."""

    @property
    def valid_targets(self) -> int:
        """Count its units where they are tokens."""

    @property
    def token_slots(self) -> int:
        """Count the tokens fed."""

    @property
    def unit_sum(self) -> float:
        """Add up its units."""

    @property
    def padding_slots(self) -> int:
        """Count the tokens fed that only fill up rows."""

    @property
    def token_pairs(self) -> int:
        """Sum the width of their row over the token slots."""


class LayOut(Protocol):
    """Make micro-batches."""

    def __call__(self, chunks: Sequence[Sequence[Any]], is_pinned: bool, /) -> Sequence[LaidOut]:
        """Make one of each chunk of sequences, in page-locked memory where asked."""


@dataclass(frozen=True)
class Data:
    """Hold what a trial is trained on, and how batches are made of it."""

    source: SequenceSource | SampleSource
    content_hash: str
    """Equal for equal data; of the user's own data set that of the samples looked at."""
    vocab_size: int | None
    """Every token id is below it; null where there are no tokens of ours [ids]."""
    loss: LossOfBatches | None = None
    """Of batches of named tensors; null for the cross-entropy of tokens."""
    make: LayOut | None = None
    """Makes batches; null for rows of tokens."""
    units_per_sequence: float | None = None
    """About how many there are; null for seq_len."""

    @property
    def unit(self) -> str:
        """Name what the loss is a mean over: token, example or weight."""
        return "token" if self.loss is None else self.loss.unit


def make_data(config: TrialConfig) -> Data:
    """Read, or let the user's function make, what a trial is trained on [one rank].

    Raises:
        BenchError: The data cannot be read or do not fit the model, or the user's own code is not what it must be.
    """
    loss = make_loss(config.loss.factory, config.loss.args) if has_own_batches(config) else None
    return _samples(config, loss) if config.data.factory is not None and loss is not None else _tokens(config, loss)


def token_rows(config: TrialConfig, has_prompts: bool) -> Callable[[Sequence[Sequence[Any]], bool], list[MicroBatch]]:
    """Make rows of tokens as a trial asks."""
    rows, seq_len = config.data.rows, config.seq_len
    return lambda chunks, is_pinned: lay_out(chunks, rows, seq_len, has_prompts, is_pinned)


def has_own_batches(config: TrialConfig) -> bool:
    """Tell whether a trial's batches are named tensors, since the data or the loss are the user's own."""
    return config.data.factory is not None or config.loss.factory is not None


def _tokens(config: TrialConfig, loss: LossOfBatches | None) -> Data:
    """Read our kind of data, and refuse a corpus that does not fit the model."""
    corpus = load_corpus(config.data)
    shape = shape_of(config.model)
    if shape is not None:
        corpus.check_vocabulary(shape.vocab_size, model_name(config.model))
    source = SequenceSource(
        corpus, config.data.rows, config.seq_len, config.seed, config.data.sequences_per_epoch, config.data.tail
    )
    if loss is None:
        return Data(source, corpus.content_hash, corpus.vocab_size)
    make = NamedTokens(token_rows(config, source.has_prompts), loss)
    some = source.window(0, 8, range(min(8, source.window_size(0, 8))))
    units = _units_per_sequence(make([some], False))
    return Data(source, corpus.content_hash, corpus.vocab_size, loss, make, units)


def _samples(config: TrialConfig, loss: LossOfBatches) -> Data:
    """Make the user's own data set."""
    source = make_samples(config.data, config.seq_len, config.seed)
    make = SampleLayout(make_collate(config.data), loss)
    units = _units_per_sequence(make([source.samples(source.first)], False))
    return Data(source, source.content_hash, None, loss, make, units)


def _units_per_sequence(batches: Sequence[SampleBatch]) -> float:
    """Tell about how many units a sequence has; 1 where these have none."""
    sequences = sum(batch.sequences for batch in batches)
    return math.fsum(batch.unit_sum for batch in batches) / sequences or 1.0


def make_loss_sum(config: TrialConfig, data: Data, model: nn.Module) -> LossSum:
    """Choose how the loop runs the model and sums its loss."""
    if data.loss is not None:
        return BatchLoss(data.loss, model, are_tokens=config.data.factory is None)
    if data.vocab_size is None or shape_of(config.model) is not None:
        return SummedCrossEntropy()
    return TokenLoss(data.vocab_size)
