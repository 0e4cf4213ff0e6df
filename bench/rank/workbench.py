"""Everything one rank needs to run a trial, built from its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from bench.errors import BenchError
from bench.launch.trial_file import TrialFile
from bench.loop import (
    AccumulationLoop,
    DdpGradientSync,
    GradientSync,
    Observer,
    Observers,
    Precision,
    make_schedule,
)
from bench.loop.switches import read_switches, set_switches
from bench.measure.compiling import CompileWatch, compiled
from bench.measure.cpu import CpuDevice
from bench.measure.cuda import CudaDevice
from bench.measure.device import Device
from bench.measure.profiler import Profiler
from bench.measure.reductions import Reductions
from bench.rank.feed import Feed
from bench.rank.ranks import Ranks
from bench.sweep.fields import OptimizerSpec
from bench.sweep.models import model_name, shape_of
from bench.workload.batches import Data, make_data, make_loss_sum
from bench.workload.build import IMPLEMENTATION_FLAGS
from bench.workload.data.sequences import SequenceSource
from bench.workload.facts import hf_vocabulary
from bench.workload.models import make_model
from bench.workload.own_optimizer import own_optimizer
from bench.workload.samples import SampleSource


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
    compile_watch: CompileWatch | None = None
    """Counts compiled graphs; None where nothing is compiled."""

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
    data = make_data(config)
    model = make_model(config, device.torch_device)
    if config.model.hf is not None and data.vocab_size is not None:
        refuse_larger_ids(data.vocab_size, hf_vocabulary(model), model_name(config.model))
    set_switches(config.amp_mode)  # after user code, which may have changed them
    switches = read_switches(device.kind)
    optimizer = make_optimizer(model, config.optimizer)
    profiler, reductions = Profiler(device), Reductions()
    compile_watch = CompileWatch() if config.compile else None
    runnable = compiled(model, device.kind) if config.compile else model
    loop = AccumulationLoop(
        _gradient_sync(runnable, ranks, config.gradient_sync),
        optimizer,
        make_loss_sum(config, data, model),
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
    return Workbench(
        trial, ranks, device, model, optimizer, loop, feed, profiler, reductions, data, beat, switches, compile_watch
    )


def refuse_larger_ids(ids: int, vocab_size: int, name: str) -> None:
    """Refuse data with ids that the model has no place for: on a GPU that is an error which names nothing.

    Raises:
        BenchError: Says what the model takes.
    """
    if ids > vocab_size:
        raise BenchError(
            f"the data have token ids up to {ids - 1}, but model {name} takes ids below {vocab_size}. Use a "
            f"configuration with vocab_size >= {ids}, or data with smaller ids."
        )


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
