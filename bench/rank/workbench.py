"""Everything one rank needs to run a trial, built from its file."""

from __future__ import annotations

from collections.abc import Callable
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
from bench.measure.cpu import CpuDevice
from bench.measure.cuda import CudaDevice
from bench.measure.device import Device
from bench.measure.profiler import Profiler
from bench.measure.reductions import Reductions
from bench.rank.compiling import CompileWatch, compiled
from bench.rank.feed import Feed
from bench.rank.ranks import Ranks
from bench.sweep.fields import OptimizerSpec
from bench.sweep.models import model_name, shape_of
from bench.workload.build import IMPLEMENTATION_FLAGS
from bench.workload.data.corpus import Corpus, load_corpus
from bench.workload.data.sequences import SequenceSource
from bench.workload.facts import hf_vocabulary
from bench.workload.models import make_model
from bench.workload.outputs import TokenLoss


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
    corpus: Corpus
    source: SequenceSource
    beat: Callable[[str], None]
    """Gives a sign of life in this phase, outside the loop; the loop's own observers do it inside."""
    switches: dict[str, bool | str | None]
    """As they were read back once the model was built."""
    compile_watch: CompileWatch | None = None
    """Counts compiled graphs; None where nothing is compiled."""


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
    shape = shape_of(config.model)
    corpus = load_corpus(config.data)
    if shape is not None:
        corpus.check_vocabulary(shape.vocab_size, model_name(config.model))
    source = SequenceSource(
        corpus, config.data.rows, config.seq_len, config.seed, config.data.sequences_per_epoch, config.data.tail
    )
    model = make_model(config, device.torch_device)
    if config.model.hf is not None:
        corpus.check_vocabulary(hf_vocabulary(model), model_name(config.model))
    set_switches(config.amp_mode)  # after user code, which may have changed them
    switches = read_switches(device.kind)
    optimizer = make_optimizer(model, config.optimizer)
    profiler, reductions = Profiler(device), Reductions()
    compile_watch = CompileWatch() if config.compile else None
    runnable = compiled(model, device.kind) if config.compile else model
    loop = AccumulationLoop(
        _gradient_sync(runnable, ranks, config.gradient_sync),
        optimizer,
        TokenLoss(corpus.vocab_size) if shape is None else SummedCrossEntropy(),
        Precision(config.amp_mode, device.kind),
        device.torch_device,
        clip_norm=config.clip_norm,
        schedule=make_schedule(
            optimizer, config.schedule.name, config.schedule.lr_warmup_updates, config.schedule.total_updates
        ),
        observer=Observers(*watchers, *([reductions] if ranks.world_size > 1 else []), profiler),
    )
    feed = Feed(source, config, ranks.agreement())
    return Workbench(
        trial,
        ranks,
        device,
        model,
        optimizer,
        loop,
        feed,
        profiler,
        reductions,
        corpus,
        source,
        beat,
        switches,
        compile_watch,
    )


def make_optimizer(model: nn.Module, spec: OptimizerSpec) -> Optimizer:
    """Make the optimizer over the trainable parameters, with the implementation asked for."""
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
