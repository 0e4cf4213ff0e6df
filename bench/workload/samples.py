"""The user's own data set: its samples dealt to updates as sequences are, and collated into batches of named tensors.

The function is called once in every rank, and its samples are read only when an update, or a rank, needs them. The same
global batch takes the same samples, however it is cut.
"""

# B = samples of a micro-batch, T = tokens of a row

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from bench.errors import BenchError
from bench.sweep.fields import DataSpec
from bench.workload.batch_loss import IDS, TARGETS, LossOfBatches
from bench.workload.data.deal import Deal
from bench.workload.micro_batches import MicroBatch
from bench.workload.models import seed_everything
from bench.workload.user_code import call, load_function

Sample = dict[str, Any]
Collate = Callable[[list[Sample]], Any]
LayTokensOut = Callable[[Sequence[Sequence[Any]], bool], list[MicroBatch]]
LOOKED_AT = 256
"""Samples looked at before the first update, evenly spread: for the largest of them, and a hash [samples]."""


@dataclass(frozen=True)
class SampleBatch:
    """What one rank feeds to one forward and backward: named tensors with the samples in their first dimension."""

    tensors: dict[str, Tensor]
    """By name, as collated."""
    sequences: int
    """Samples in it [this rank]."""
    valid_targets: int
    """Its units where they are tokens, else 0 [this rank]."""
    token_slots: int
    """Elements of `input_ids`, padding included; 0 where there are none [this rank]."""
    unit_sum: float
    """Its share of the window's denominator in the loss's own unit [this rank]."""
    padding_slots: int = 0
    """Not known: 0."""
    token_pairs: int = 0
    """Not known: 0."""

    def to(self, device: torch.device | str, non_blocking: bool = True) -> SampleBatch:
        """Copy the tensors to a device, by default without waiting for the copy; the counts stay."""
        moved = {name: tensor.to(device, non_blocking=non_blocking) for name, tensor in self.tensors.items()}
        return replace(self, tensors=moved)


class SampleSource:
    """Deal the samples of the user's data set to updates.

    Attributes:
        num_sequences: Samples of one epoch, held-out ones not among them.
        content_hash: Of the number of samples and of those looked at [hex].
        is_all_looked_at: Whether the largest sample is surely known.
    """

    has_prompts = False

    def __init__(self, samples: Sequence[Sample], data: DataSpec, seed: int, what: str) -> None:
        """Look at some samples and prepare the deal.

        Raises:
            BenchError: It is no data set as expected; says what came.
        """
        self._samples, self._what = samples, what
        self._deal = Deal(_length(samples, what), seed, data.sequences_per_epoch, data.tail, what)
        self.num_sequences: int = self._deal.num_sequences
        trained_on = self._deal.trained_on[: self.num_sequences]
        step = max(1, -(-len(trained_on) // LOOKED_AT))
        looked_at = [int(number) for number in trained_on[::step]]
        self.is_all_looked_at = len(looked_at) == len(trained_on)
        digest = hashlib.sha256(str(len(samples)).encode())
        sizes = {}
        for number in looked_at:
            sample = self._sample(number)
            sizes[number] = sum(value.numel() * value.element_size() for value in _tensors(sample))
            for name, value in sorted(sample.items()):
                digest.update(f"{name}:".encode() + _bytes(value))
        self.content_hash = digest.hexdigest()
        self.is_one_size = len(set(sizes.values())) == 1
        self.largest = max(sizes, key=lambda number: sizes[number])
        self.first = looked_at[:8]

    def window_size(self, update: int, global_batch_size: int) -> int:
        """Count the samples of one update over all ranks."""
        return self._deal.window_size(update, global_batch_size)

    def window(self, update: int, global_batch_size: int, positions: Sequence[int] | None = None) -> list[Sample]:
        """Give the samples of one update over all ranks, or those at these places of it; no other is read."""
        numbers = self._deal.numbers(update, global_batch_size)
        return self.samples(numbers if positions is None else numbers[list(positions)])

    def full_rows(self, positions: Sequence[int]) -> list[Sample]:
        """Give the largest sample that was looked at, as often as asked: the largest window there is known to be."""
        return self.samples([self.largest] * len(positions))

    def held_out(self) -> list[Sample]:
        """Give the samples that no update takes; none of fewer than 100."""
        return self.samples(self._deal.held_out)

    def samples(self, numbers: Any) -> list[Sample]:
        """Read samples by their numbers."""
        return [self._sample(int(number)) for number in numbers]

    def length_percentiles(self) -> dict[str, int | None]:
        """Give no lengths: what is long in a sample only its owner knows."""
        return {"sequence_tokens_p50": None, "sequence_tokens_p95": None}

    def _sample(self, number: int) -> Sample:
        sample = self._samples[number]
        if not isinstance(sample, Mapping) or not sample or not all(isinstance(name, str) for name in sample):
            came = f"{type(sample).__name__}" + (" without a key" if isinstance(sample, Mapping) else "")
            raise BenchError(f"{self._what}: sample {number} is {came}. Expected: a dict of tensors by name.")
        return dict(sample)


def _length(samples: Any, what: str) -> int:
    try:
        length = len(samples)
        is_indexed = callable(getattr(samples, "__getitem__", None))
    except TypeError:
        is_indexed = False
    if not is_indexed or isinstance(samples, Mapping):
        raise BenchError(
            f"{what} returned {type(samples).__name__}. Expected: a sequence of samples, with len() and [number], such "
            "as a list or a map-style data set; each a dict of tensors."
        )
    if length == 0:
        raise BenchError(f"{what} returned no sample: its length is 0.")
    return length


def _tensors(sample: Sample) -> Iterator[Tensor]:
    return (torch.as_tensor(value) for value in sample.values() if not isinstance(value, str | bytes))


def _bytes(value: Any) -> bytes:
    if isinstance(value, Tensor):
        plain = value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy()
        return f"{value.dtype}{tuple(value.shape)}".encode() + bytes(plain.tobytes())
    return repr(value).encode()


def make_samples(data: DataSpec, seq_len: int, seed: int) -> SampleSource:
    """Let the user's function make the data set: `function(seq_len, seed, **args)`, generators seeded before.

    Raises:
        BenchError: It cannot be imported or called, or makes something else than a data set.
    """
    assert data.factory is not None, "the trial is checked"
    what = f"data.factory = {data.factory}"
    function = load_function(data.factory, "data.factory")
    seed_everything(seed)
    named = {"seq_len": seq_len, "seed": seed, **(data.args or {})}
    return SampleSource(call(function, what, (), named), data, seed, what)


def make_collate(data: DataSpec) -> Collate:
    """Give the user's function that makes a batch of samples, or torch's own, which stacks them."""
    return default_collate if data.collate is None else load_function(data.collate, "data.collate")


class SampleLayout:
    """Collate samples into batches, and count their units."""

    def __init__(self, collate: Collate, loss: LossOfBatches, what: str = "data.collate") -> None:
        self._collate, self._loss, self._what = collate, loss, what

    def __call__(self, chunks: Sequence[Sequence[Sample]], is_pinned: bool = False, /) -> list[SampleBatch]:
        """Make one batch of each chunk of samples, in page-locked memory where asked.

        Raises:
            BenchError: The collated batch is not as expected; says what came.
        """
        return [self._batch(list(chunk), is_pinned) for chunk in chunks]

    def batch(self, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """Make the tensors of one batch.

        Raises:
            BenchError: The collated batch is not as expected; says what came.
        """
        try:
            made = self._collate(list(samples))
        except RuntimeError as error:
            if self._collate is not default_collate:
                raise
            raise BenchError(
                f"samples cannot be stacked: {str(error).splitlines()[0]}. Name a data.collate that pads them."
            ) from error
        is_named = isinstance(made, Mapping) and made and all(isinstance(value, Tensor) for value in made.values())
        if not is_named:
            inner = {type(value).__name__ for value in made.values()} if isinstance(made, Mapping) else set()
            of = f" of {', '.join(sorted(inner))}" if inner else ""
            raise BenchError(f"{self._what} returned {type(made).__name__}{of}. Expected: a dict of tensors by name.")
        wrong = {name: tuple(value.shape) for name, value in made.items() if value.dim() and len(value) != len(samples)}
        if wrong:
            raise BenchError(
                f"{self._what}: of {len(samples)} samples came {wrong}. Expected: the samples in the first dimension."
            )
        return dict(made)

    def _batch(self, samples: list[Sample], is_pinned: bool) -> SampleBatch:
        tensors = self.batch(samples)
        if is_pinned:
            tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
        units, ids = self._loss.units(tensors), tensors.get(IDS)
        return SampleBatch(
            tensors=tensors,
            sequences=len(samples),
            valid_targets=int(units) if self._loss.unit == "token" else 0,
            token_slots=0 if ids is None else ids.numel(),
            unit_sum=units,
        )


class NamedTokens:
    """Lay tokens out as batches of named tensors: `input_ids` and, shifted already, `labels`.

    Args:
        lay_out: Makes micro-batches of tokens.
        loss: Counts their units.
    """

    def __init__(
        self, lay_out: Callable[[Sequence[Sequence[Any]], bool], list[MicroBatch]], loss: LossOfBatches
    ) -> None:
        self._lay_out, self._loss = lay_out, loss

    def __call__(self, chunks: Sequence[Sequence[Any]], is_pinned: bool = False, /) -> list[SampleBatch]:
        """Make one batch of each chunk of sequences."""
        return [self._named(micro_batch) for micro_batch in self._lay_out(chunks, is_pinned)]

    def _named(self, laid_out: MicroBatch) -> SampleBatch:
        tensors = {IDS: laid_out.inputs, TARGETS: laid_out.targets}
        units = self._loss.units(tensors)
        return SampleBatch(
            tensors=tensors,
            sequences=laid_out.sequences,
            valid_targets=int(units) if self._loss.unit == "token" else 0,
            token_slots=laid_out.token_slots,
            unit_sum=units,
            padding_slots=laid_out.padding_slots,
            token_pairs=laid_out.token_pairs,
        )
