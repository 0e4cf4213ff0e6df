"""What one rank observed becomes the columns and update rows it reports."""

from __future__ import annotations

import json
import math
import os
import platform
import socket
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

import bench as package
from bench.check.exchange.lines import ARITHMETIC
from bench.loop import batch_coupled_layers, parameters_checksum, random_layers
from bench.loop.switches import autocast_dtype_in_force, read_switches
from bench.measure.host import cpu_16bit_dtypes, cpu_model, usable_cores
from bench.measure.profiler import Part, PartName, UpdateSample
from bench.measure.versions import cudnn_version, nccl_version
from bench.rank.efficiency_columns import efficiency_facts, flops_columns
from bench.rank.memory_columns import memory_columns, memory_facts
from bench.rank.own_loss import why_loss_is_wrong
from bench.rank.protocol import MEMORY_UPDATES, UNSHORTENED, Observations
from bench.rank.timed_columns import timed_columns
from bench.rank.workbench import Workbench
from bench.record.variables import recorded_variables
from bench.sweep.models import shape_of
from bench.workload.build import PARAM_DTYPES
from bench.workload.facts import gradient_dtype, hf_vocabulary, parameter_counts
from bench.workload.samples import SampleSource


def facts_before(bench: Workbench) -> dict[str, Any]:
    """State what is known before the first update: it is reported even when the launch fails [one rank]."""
    properties = bench.device.properties()
    is_gpu = bench.device.kind == "cuda"
    parameters = parameter_counts(bench.model)
    return {
        "parameters_total": parameters.total,
        "parameters_trainable": parameters.trainable,
        "parameters_unique": parameters.unique,
        "gradient_dtype": gradient_dtype(bench.model),
        "corpus_hash": bench.data.content_hash,
        "corpus_sequences": bench.source.num_sequences,
        **bench.source.length_percentiles(),
        "unit": bench.data.unit,
        "flags": doubts(bench),
        "vocab_size": _vocab_size(bench),
        **bench.switches,
        "autocast_dtype": _dtype_name(autocast_dtype_in_force(bench.loop.precision)),
        "grad_scaler": bench.loop.precision.scaler is not None and bench.loop.precision.scaler.is_enabled(),
        "time_method": bench.device.time_method,
        "threads_per_rank": torch.get_num_threads(),
        "hostname": socket.gethostname(),
        "cpu_model": cpu_model(),
        "cpu_count": usable_cores(),
        "cpu_16bit_dtypes": cpu_16bit_dtypes(),
        "gpu_name": properties.name if is_gpu else None,
        "gpu_uuid": properties.uuid,
        "cuda_version": torch.version.cuda,
        "cudnn_version": cudnn_version() if is_gpu else None,
        "nccl_version": nccl_version() if is_gpu else None,
        "torch_version": torch.__version__,
        "python_version": platform.python_version(),
        "bench_version": package.__version__,
        **efficiency_facts(bench),
        **memory_facts(bench),
        "environment_json": json.dumps(recorded_variables(os.environ)),
    }


def _vocab_size(bench: Workbench) -> int | None:
    """Give the number of token ids that the model accepts; null where only its own code knows."""
    source = bench.trial.config.model
    shape = shape_of(source)
    if source.hf is not None:
        return hf_vocabulary(bench.model)
    return None if shape is None else shape.vocab_size


def doubts(bench: Workbench) -> list[str]:
    """Flag what is doubtful before the first update; the log says it in sentences [one rank]."""
    for sentence in [sentence for sentences in _doubtful_layers(bench.model).values() for sentence in sentences]:
        sys.stderr.write(f"not equal to a larger batch: {sentence}\n")
    return facts_flags(bench)


def facts_flags(bench: Workbench) -> list[str]:
    """Name the flags that model and data raise: accumulation is no larger batch, or something is not as it is said."""
    source, wanted = bench.source, PARAM_DTYPES[bench.trial.config.param_dtype]
    is_guessed = isinstance(source, SampleSource) and not (source.is_all_looked_at or source.is_one_size)
    stored = {parameter.dtype for parameter in bench.model.parameters() if parameter.requires_grad}
    return [
        *_doubtful_layers(bench.model),
        *(["largest_window_unknown"] if is_guessed else []),
        # Adapters beside 16-bit weights are float32, as peft makes them.
        *(["weights_not_param_dtype"] if stored != {wanted} and bench.trial.config.lora is None else []),
    ]


def _doubtful_layers(model: nn.Module) -> dict[str, list[str]]:
    """Give flag to sentences, for the flags that have any."""
    found = {"batch_coupled": batch_coupled_layers(model), "random_layers": random_layers(model)}
    return {flag: sentences for flag, sentences in found.items() if sentences}


def no_gradient(names: Sequence[str]) -> list[str]:
    """Flag trainable parameters that received no gradient: they are not trained."""
    return ["no_gradient"] if names else []


def measured_columns(bench: Workbench, observed: Observations, train_losses: dict[int, float | None]) -> dict[str, Any]:
    """State what the launch measured; `train_losses` maps update to loss over all ranks [one rank]."""
    samples = observed.samples("timed")
    counts = [sample.counts for sample in samples]
    quality_updates = bench.trial.measure.quality_updates or None
    losses = _of_full_windows(observed, train_losses)
    timed = timed_columns(bench, observed)
    return {
        **timed,
        "flags": sorted(
            {
                *facts_flags(bench),
                *timed["flags"],
                *no_gradient(observed.without_gradient),
                *_compile_flags(bench, observed),
            }
        ),
        **_compile_columns(observed),
        "parameters_without_gradient": list(observed.without_gradient),
        "micro_batches": sum(sample.micro_steps_run for sample in samples),
        "sequences": sum(count.sequences for count in counts),
        "units": math.fsum(count.units for count in counts),
        "valid_tokens": sum(count.valid_tokens for count in counts) if bench.data.unit == "token" else None,
        "token_slots": sum(count.token_slots for count in counts) or None,
        "padding_slots": None
        if bench.has_own_samples
        else sum(bench.feed.padding_slots[sample.update] for sample in samples),
        **flops_columns(bench, observed),
        "updates_attempted": len(samples),
        "updates_applied": sum(sample.result == "applied" for sample in samples),
        "updates_skipped": sum(sample.result == "skipped" for sample in samples),
        "updates_empty": sum(sample.result == "empty" for sample in samples),
        "windows_partial": sum(sample.plan.is_partial for sample in samples),
        "launch_updates": sum(len(part.samples) for part in observed.parts),
        "warmup_updates": len(observed.samples("warmup")),
        "memory_updates": MEMORY_UPDATES,
        "first_update_s": next(observed.part("first")).host_seconds,
        **memory_columns(bench, observed),
        "parameters_checksum": parameters_checksum(bench.model),
        "final_train_loss": None if quality_updates is None else losses.get(quality_updates),
        "validation_loss": observed.validation_loss,
    }


def _compile_columns(observed: Observations) -> dict[str, Any]:
    """State how many graphs were compiled, in the first updates and later; null where nothing is compiled."""
    graphs = observed.graphs
    if graphs is None:
        return {"compiled_graphs": None, "recompiled_graphs": None, "recompiled_graphs_timed": None}
    later = sum(count for name, count in graphs.items() if name != "first")
    return {
        "compiled_graphs": graphs["first"],
        "recompiled_graphs": later,
        "recompiled_graphs_timed": sum(graphs[name] for name in _TIMED),
    }


def _compile_flags(bench: Workbench, observed: Observations) -> list[str]:
    """Say where the timed part holds time of the compiler, or was not compiled after all."""
    watch, graphs = bench.compile_watch, observed.graphs
    if watch is None or graphs is None:
        return []
    found = {
        "recompiled": any(graphs[name] for name in _TIMED),
        "not_compiled": watch.gave_up or not any(graphs.values()),
    }
    return [flag for flag, is_raised in found.items() if is_raised]


_TIMED: tuple[PartName, ...] = ("timed", "confirm", "whole")
"""Parts whose durations are reported."""


def update_rows(
    observed: Observations, train_losses: dict[int, float | None], unit: str = "token"
) -> list[dict[str, Any]]:
    """State every update of the launch but the witnessed ones, one row each [one rank].

    Losses of shortened windows are of fewer sequences than the update's own, and are null.
    """
    losses = _of_full_windows(observed, train_losses)
    return [
        update_row(
            part,
            sample,
            losses[sample.update],
            part.peaks.allocated_bytes if len(part.samples) == 1 else None,
            unit,
        )
        for part in observed.parts
        for sample in part.samples
    ]


def _of_full_windows(observed: Observations, train_losses: dict[int, float | None]) -> dict[int, float | None]:
    """Leave the losses of the one trajectory that all cuts of the batch share: those before windows were shortened."""
    if not observed.pace.is_shortened:
        return train_losses
    full = {sample.update for name in UNSHORTENED for sample in observed.samples(name)}
    return {update: loss if update in full else None for update, loss in train_losses.items()}


def update_row(
    part: Part, sample: UpdateSample, train_loss: float | None, peak_bytes: int | None, unit: str = "token"
) -> dict[str, Any]:
    """State one update [one rank].

    Args:
        part: That it was in.
        sample: What it did.
        train_loss: Of its window over all ranks [nats per unit].
        peak_bytes: Most bytes in live tensors during it; None where that is known of several updates together.
        unit: What the loss is a mean over.
    """
    return {
        "update": sample.update,
        "phase": part.name,
        "seconds": sample.seconds,
        "micro_batches": sample.micro_steps_run,
        "sequences": sample.counts.sequences,
        "units": sample.counts.units,
        "valid_tokens": sample.counts.valid_tokens if unit == "token" else None,
        "token_slots": sample.counts.token_slots or (0 if unit == "token" else None),
        "train_loss": train_loss,
        "grad_norm": sample.grad_norm,
        "lr": sample.lr,
        "loss_scale": sample.loss_scale,
        "result": sample.result,
        "peak_allocated_bytes": peak_bytes,
    }


def train_losses(bench: Workbench, observed: Observations) -> dict[int, float | None]:
    """Give the loss per valid token of every update over all ranks [nats/token]; None for an empty window."""
    samples = [sample for part in observed.parts for sample in part.samples]
    sums = bench.ranks.sum([sample.loss_sum for sample in samples])
    return {
        sample.update: None if sample.plan.is_empty else loss_sum / sample.plan.all_ranks.units
        for sample, loss_sum in zip(samples, sums, strict=True)
    }


def why_invalid(bench: Workbench, observed: Observations, losses: dict[int, float | None]) -> str | None:
    """Say what makes the launch's figures invalid; None when they are valid [one rank].

    An update of fp16 that the scaler skipped may have overflowed; an applied one must have a finite loss. Counts of
    the timed part must be what the configuration says.
    """
    config = bench.trial.config
    diverged = bench.ranks.diverged_parameters(bench.model)  # first, since every rank must come here
    if mean := why_loss_is_wrong(bench):
        return mean
    for part in observed.parts:
        for sample in part.samples:
            loss = losses[sample.update]
            if sample.result == "applied" and loss is not None and not math.isfinite(loss):
                return f"the loss of update {sample.update} is {loss}"
            planned = sample.counts.micro_batches
            if sample.micro_steps_run != planned and not sample.plan.is_empty:
                return f"update {sample.update} ran {sample.micro_steps_run} micro-steps of {planned}"
    samples = observed.samples("timed")
    if samples and not any(sample.result == "applied" for sample in samples):
        return "no update of the timed part was applied"
    total = [sample.plan.all_ranks for sample in samples]
    sequences = sum(counts.sequences for counts in total)
    each = observed.pace.micro_steps * config.micro_batch_size * config.world_size
    if config.data.sequences_per_epoch is None and sequences != len(samples) * each:
        return f"{len(samples)} updates took {sequences} sequences, not {each} each"
    fixed_width = config.data.rows != "ragged" and config.data.factory is None
    slots = sum(counts.token_slots for counts in total)
    if fixed_width and slots != sequences * config.seq_len:
        return f"{sequences} sequences took {slots} token slots, not {config.seq_len} each"
    now = read_switches(bench.device.kind)
    changed = [f"{name} {was} -> {now[name]}" for name, was in bench.switches.items() if now[name] != was]
    if changed:
        return f"{ARITHMETIC} the model changed torch's switches while it was trained: {', '.join(changed)}"
    if diverged:
        return f"the ranks hold different parameters after the last update: {', '.join(diverged[:3])}, ..."
    return None


def _dtype_name(dtype: torch.dtype | None) -> str | None:
    return None if dtype is None else str(dtype).removeprefix("torch.")
