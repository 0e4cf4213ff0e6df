"""Columns of FLOPs, and of the share of a peak that they reach."""

from __future__ import annotations

from bench.record.column_types import Column, Kind, Rule


def _efficiency(
    name: str, unit: str | None, rule: Rule, sentence: str, kind: Kind = "float64", source: str | None = None
) -> Column:
    return Column(name, kind, unit, "efficiency", rule, sentence, source)


EFFICIENCY: tuple[Column, ...] = (
    _efficiency(
        "token_pairs",
        "token pair",
        "sum",
        "Sum of the row width over all token slots of the timed part; the cost of attention grows with it.",
        "int64",
    ),
    _efficiency(
        "model_flops",
        "FLOP",
        "sum",
        "FLOPs that forward and backward of the timed part need, without recomputation, all ranks; of a model that is "
        "no preset counted "
        "by torch, null where it cannot.",
    ),
    _efficiency(
        "hardware_flops",
        "FLOP",
        "sum",
        "model_flops plus what activation checkpointing recomputes, all ranks.",
    ),
    _efficiency(
        "flops_formula_version",
        None,
        "same",
        "Version and convention of all FLOP counts of the row; see method.md.",
        "string",
    ),
    _efficiency(
        "model_flops_per_token",
        "FLOP/token",
        "derived",
        "model_flops / token_slots: forward and backward of one token slot, padding included; null unless the outcome"
        " is ok.",
    ),
    _efficiency(
        "model_flops_per_s_per_gpu",
        "FLOP/second",
        "derived",
        "model_flops_per_token x token_slots_per_s_per_gpu (per rank on a CPU): padding is computed too; of units "
        "where there are no token slots; null unless the outcome is ok.",
    ),
    _efficiency(
        "peak_flops_per_s_bf16",
        "FLOP/second",
        "same",
        "Dense bf16 peak of the GPU, from its data sheet; null on a CPU, on a GPU without bf16 units (V100, T4), and "
        "for one whose peak is not known.",
    ),
    _efficiency(
        "peak_flops_per_s_mode",
        "FLOP/second",
        "same",
        "Dense peak of the GPU in the precision of the trial's matrix products; null where it is not known.",
    ),
    _efficiency(
        "mfu",
        "ratio",
        "derived",
        "Model FLOPs utilisation: model_flops_per_s_per_gpu / peak_flops_per_s_bf16, whatever the AMP mode; null with "
        "it, as on a V100 or T4, which have no bf16 units. Above 1 the row is flagged above_peak.",
    ),
    _efficiency(
        "hfu",
        "ratio",
        "derived",
        "Hardware FLOPs utilisation: mfu x hardware_flops / model_flops; above mfu with activation checkpointing.",
    ),
    _efficiency(
        "mode_peak_share",
        "ratio",
        "derived",
        "model_flops_per_s_per_gpu / peak_flops_per_s_mode: share of the peak of the trial's precision.",
    ),
    _efficiency(
        "matmul_ceiling_flops_per_s_per_rank",
        "FLOP/second",
        "per_rank",
        "Speed of the fastest large matrix product that bench env --calibrate measured on every rank's device, in the"
        " trial's precision, with this torch and number of threads; null without such a calibration.",
        "list<float64>",
        "matmul_ceiling_flops_per_s",
    ),
    _efficiency(
        "matmul_ceiling_flops_per_s",
        "FLOP/second",
        "derived",
        "Smallest of matmul_ceiling_flops_per_s_per_rank; null unless every rank's device was calibrated.",
    ),
    _efficiency(
        "matmul_ceiling_share",
        "ratio",
        "derived",
        "model_flops_per_s_per_gpu / matmul_ceiling_flops_per_s: share of the best that this very device reached.",
    ),
)
"""Efficiency: FLOPs of the timed part, peaks and ceilings of one device, and their ratios."""
