"""FLOPs of what one rank ran, and the peaks and ceilings they are compared with, as columns."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import torch

from bench.machine.calibration import DeviceKey, Stored, read
from bench.measure.device import DeviceProperties
from bench.measure.peaks import matmul_precision, peak_flops_per_s
from bench.rank.counted_flops import Run, Shapes, count_flops
from bench.rank.protocol import Observations
from bench.rank.workbench import Workbench
from bench.sweep.models import shape_of
from bench.workload.batch_loss import IDS, BatchLoss
from bench.workload.flops import FLOPS_FORMULA_VERSION, hardware_flops, model_flops

COUNTED = "1: counted by torch, attention not halved"
"""Convention of FLOPs that torch counted."""


def efficiency_facts(bench: Workbench) -> dict[str, Any]:
    """State the peaks of the device and its calibrated ceiling, all null where not known [one rank]."""
    properties, config = bench.device.properties(), bench.trial.config
    gpu_name = properties.name if bench.device.kind == "cuda" else None
    precision = matmul_precision(config.amp_mode, config.param_dtype)
    stored = _calibration(bench.device.kind, properties)
    if stored.problem is not None:
        sys.stderr.write(f"{stored.problem}\n")
    return {
        "flops_formula_version": FLOPS_FORMULA_VERSION if bench.feed.shapes is None else COUNTED,
        "peak_flops_per_s_bf16": peak_flops_per_s(gpu_name, "bf16"),
        "peak_flops_per_s_mode": peak_flops_per_s(gpu_name, precision),
        "matmul_ceiling_flops_per_s": stored.matmul_flops_per_s(precision),
    }


def flops_columns(bench: Workbench, observed: Observations) -> dict[str, Any]:
    """Count the FLOPs of the timed part [one rank]."""
    samples, config = observed.samples("timed"), bench.trial.config
    shape = shape_of(config.model)
    if bench.feed.shapes is not None:
        fed: Counter[Shapes] = Counter()
        for sample in samples:
            fed.update(bench.feed.shapes.get(sample.update, {}))
        counted = count_flops(bench.model, _run(bench), fed)
        told = None if bench.has_own_samples else sum(bench.feed.token_pairs[sample.update] for sample in samples)
        return {"token_pairs": told, "model_flops": counted[0], "hardware_flops": counted[1]}
    assert shape is not None, "without one, shapes are noted"
    token_slots = sum(sample.counts.token_slots for sample in samples)
    token_pairs = sum(bench.feed.token_pairs[sample.update] for sample in samples)
    return {
        "token_pairs": token_pairs,
        "model_flops": model_flops(shape, token_slots, token_pairs),
        "hardware_flops": hardware_flops(shape, token_slots, token_pairs, config.activation_checkpointing),
    }


def _run(bench: Workbench) -> Run:
    """Tell how the model is run on a batch of named tensors."""
    loss_sum = bench.loop.loss_sum
    if isinstance(loss_sum, BatchLoss):
        return loss_sum.outputs
    return lambda model, batch: model(batch[IDS])


def _calibration(kind: str, properties: DeviceProperties) -> Stored:
    if kind == "cpu":
        return read(DeviceKey.cpu(properties.name, torch.get_num_threads(), str(torch.__version__)))
    return (
        Stored(None)
        if properties.uuid is None
        else read(DeviceKey.gpu(properties.name, properties.uuid, str(torch.__version__)))
    )
