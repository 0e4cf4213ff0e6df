"""Everything one rank needs to run a trial, built from its file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from bench.launch.trial_file import TrialFile
from bench.loop import (
    AccumulationLoop,
    DdpGradientSync,
    GradientSync,
    Observer,
    Observers,
    Precision,
    SummedCrossEntropy,
    make_schedule,
)
from bench.loop.switches import read_switches, set_switches
from bench.loop.window import LossSum
from bench.measure.cpu import CpuDevice
from bench.measure.cuda import CudaDevice
from bench.measure.device import Device
from bench.measure.profiler import Profiler
from bench.measure.reductions import Reductions
from bench.rank.feed import Feed, LayOut, token_rows
from bench.rank.ranks import Ranks
from bench.sweep.fields import OptimizerSpec, TrialConfig
from bench.sweep.models import model_name, shape_of
from bench.workload.batch_loss import BatchLoss, LossOfBatches, make_loss
from bench.workload.build import IMPLEMENTATION_FLAGS
from bench.workload.data.corpus import load_corpus
from bench.workload.data.sequences import SequenceSource
from bench.workload.models import make_model
from bench.workload.outputs import TokenLoss
from bench.workload.own_optimizer import own_optimizer
from bench.workload.samples import NamedTokens, SampleBatch, SampleLayout, SampleSource, make_collate, make_samples


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


@dataclass
class Workbench:
    """Hold the parts of one rank's run, put together."""

    trial: TrialFile
    ranks: Ranks
    device: Device
    model: nn.Module
    """The model itself, without the wrapper of several ranks."""
    optimizer: Optimizer
    loop: AccumulationLoop
    feed: Feed
    profiler: Profiler
    reductions: Reductions
    """Counts gradient reductions where it is entered."""
    data: Data
    beat: Callable[[str], None]
    """Gives a sign of life in this phase, outside the loop; the loop's own observers do it inside."""
    switches: dict[str, bool | str | None]
    """As they were read back once the model was built."""

    @property
    def has_own_samples(self) -> bool:
        """Tell whether the data set is the user's own."""
        return self.trial.config.data.factory is not None

    @property
    def source(self) -> SequenceSource | SampleSource:
        """Give what deals the data to updates."""
        return self.data.source


def open_device(trial: TrialFile, local_rank: int) -> Device:
    """Open the device of one rank; each rank has a GPU of its own."""
    return CudaDevice(trial.gpus[local_rank]) if trial.config.device == "cuda" else CpuDevice()


def build_workbench(
    trial: TrialFile,
    ranks: Ranks,
    device: Device,
    watchers: list[Observer],
    beat: Callable[[str], None] = lambda phase: None,
) -> Workbench:
    """Build model, optimizer, loop and data of one rank.

    Raises:
        BenchError: The corpus does not fit the model, or the user's own code is not what it must be.
    """
    config = trial.config
    loss = make_loss(config.loss.factory, config.loss.args) if has_own_batches(config) else None
    data = _samples(config, loss) if config.data.factory is not None and loss is not None else _tokens(config, loss)
    model = make_model(config, device.torch_device)
    set_switches(config.amp_mode)  # after user code, which may have changed them
    switches = read_switches(device.kind)
    optimizer = make_optimizer(model, config.optimizer)
    profiler, reductions = Profiler(device), Reductions()
    loop = AccumulationLoop(
        _gradient_sync(model, ranks, config.gradient_sync),
        optimizer,
        _loss_sum(config, data, model),
        Precision(config.amp_mode, device.kind),
        device.torch_device,
        clip_norm=config.clip_norm,
        schedule=make_schedule(
            optimizer, config.schedule.name, config.schedule.lr_warmup_updates, config.schedule.total_updates
        ),
        observer=Observers(*watchers, *([reductions] if ranks.world_size > 1 else []), profiler),
    )
    must_count = shape_of(config.model) is None or config.data.factory is not None  # FLOPs: no formula knows them
    feed = Feed(data.source, config, ranks.agreement(), data.make, data.units_per_sequence, must_count)
    return Workbench(trial, ranks, device, model, optimizer, loop, feed, profiler, reductions, data, beat, switches)


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


def _loss_sum(config: TrialConfig, data: Data, model: nn.Module) -> LossSum:
    """Choose how the loop runs the model and sums its loss."""
    if data.loss is not None:
        return BatchLoss(data.loss, model, are_tokens=config.data.factory is None)
    if data.vocab_size is None or shape_of(config.model) is not None:
        return SummedCrossEntropy()
    return TokenLoss(data.vocab_size)


def make_optimizer(model: nn.Module, spec: OptimizerSpec) -> Optimizer:
    """Make the optimizer over the trainable parameters, with the implementation asked for, or as the user makes it.

    Raises:
        BenchError: The user's function cannot be imported or called, or returns something else than an optimizer.
    """
    if spec.factory is not None:
        return own_optimizer(spec, model)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    flags: dict[str, Any] = IMPLEMENTATION_FLAGS[spec.implementation]
    if spec.name == "sgd":
        return SGD(parameters, lr=spec.lr, momentum=spec.momentum or 0.0, weight_decay=spec.weight_decay, **flags)
    assert spec.beta1 is not None, "the trial is resolved"
    assert spec.beta2 is not None, "the trial is resolved"
    betas = (spec.beta1, spec.beta2)
    return AdamW(parameters, lr=spec.lr, betas=betas, weight_decay=spec.weight_decay, **flags)


def _gradient_sync(model: nn.Module, ranks: Ranks, when: str) -> GradientSync:
    if ranks.world_size == 1:
        return GradientSync(model)
    # No device_ids: the model and its inputs are on their device already, and with them DistributedDataParallel cannot
    # be called without inputs, as it is on a rank that has no data.
    return DdpGradientSync(model, "every" if when == "every" else "last")
