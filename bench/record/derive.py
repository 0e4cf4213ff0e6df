"""Divide, at the end and nowhere else: rates, shares and percentiles from the counts and seconds of one row."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.record.fit import derive_fit


def derive(row: Mapping[str, Any], updates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `row` with every derived column filled.

    Numerator and denominator cover the same timed part, and both stay in the row. A derived value is null when one of
    its inputs is null or its denominator is 0. Rates are null unless the outcome is ok: the speed of a run that
    diverged, or ended early, is the speed of something else. Where windows were shortened, rates and the median are
    those of a full window, see `full_update_s`.

    Args:
        row: The reduced row; holds `outcome`.
        updates: The launch's update rows, reduced over ranks; those of phase "timed" give the percentiles.
    """
    assert row.get("outcome") is not None, "derive() needs the outcome"
    rated = row if row["outcome"] == "ok" else {}
    full_s = full_update_s(row)
    seconds = sorted(
        update["seconds"] for update in updates if update["phase"] == "timed" and update.get("seconds") is not None
    )
    if full_s is None:
        median_s = statistics.median(seconds) if seconds else None
        rated_s = rated.get("timed_s")
        updates_worth = row.get("updates_attempted")
    else:
        # As if the counts of the timed part had been those of full windows; percentiles of shorter ones say nothing.
        median_s, seconds = full_s, []
        updates_worth = _ratio(row.get("micro_batches"), row["accumulation_steps"] * row["world_size"])
        rated_s = None if updates_worth is None else full_s * updates_worth
    valid_tokens_per_s = _ratio(rated.get("valid_tokens"), rated_s)
    units_per_s = _ratio(rated.get("units"), rated_s)
    token_slots_per_s = _ratio(rated.get("token_slots"), rated_s)
    token_slots_per_s_per_gpu = _ratio(token_slots_per_s, row.get("world_size"))
    # The energy of shortened windows holds too many optimizer steps for their tokens.
    tokens = rated.get("valid_tokens") if full_s is None else None
    joules = _product(rated.get("joules_per_gpu"), row.get("world_size"))
    return {
        **row,
        "padding_share": _ratio(row.get("padding_slots"), row.get("token_slots")),
        "valid_tokens_per_update": _ratio(row.get("valid_tokens"), updates_worth),
        "units_per_update": _ratio(row.get("units"), updates_worth),
        "update_s_median": median_s,
        "update_s_p05": _quantile(seconds, 0.05),
        "update_s_p95": _quantile(seconds, 0.95),
        "data_wait_share": _ratio(row.get("data_wait_s"), row.get("timed_s")),
        "valid_tokens_per_s": valid_tokens_per_s,
        "units_per_s": units_per_s,
        "token_slots_per_s": token_slots_per_s,
        "valid_tokens_per_s_per_gpu": _ratio(valid_tokens_per_s, row.get("world_size")),
        "token_slots_per_s_per_gpu": token_slots_per_s_per_gpu,
        "joules_per_valid_token": _ratio(joules, tokens),
        **_derive_efficiency(row, token_slots_per_s_per_gpu, _ratio(units_per_s, row.get("world_size"))),
        **derive_fit(row),
    }


def doubts_of_derived(row: Mapping[str, Any]) -> list[str]:
    """Name the flags that a row with its derived columns raises."""
    shares = [row.get(name) for name in ("mfu", "hfu", "mode_peak_share")]
    return ["above_peak"] if any(share is not None and share > 1 for share in shares) else []


def full_update_s(row: Mapping[str, Any]) -> float | None:
    """Extrapolate the duration of an update of a full window; null where full windows ran, or it is not known [s].

    update_step_s + accumulation_steps x micro_step_s; where that law does not hold, what a whole update took, if known.
    """
    if row.get("time_method") != "extrapolated" or row.get("micro_step_s") is None:
        return None
    if row.get("whole_update_s") is not None and "law_not_met" in (row.get("flags") or ()):
        return float(row["whole_update_s"])
    return float(row["update_step_s"] + row["accumulation_steps"] * row["micro_step_s"])


def _derive_efficiency(
    row: Mapping[str, Any], token_slots_per_s_per_gpu: float | None, units_per_s_per_gpu: float | None
) -> dict[str, Any]:
    """Divide FLOPs by seconds, and by what a device can do at most: of token slots, on which FLOPs are spent.

    Where there are no tokens, of the units of the loss.
    """
    model_flops, hardware_flops = row.get("model_flops"), row.get("hardware_flops")
    ceilings = row.get("matmul_ceiling_flops_per_s_per_rank") or [None]
    ceiling = None if None in ceilings else min(ceilings)
    per_token = rate = None
    if token_slots_per_s_per_gpu is not None and model_flops is not None:
        per_token = model_flops / row["token_slots"]
        rate = per_token * token_slots_per_s_per_gpu
    elif units_per_s_per_gpu is not None and model_flops is not None and row.get("token_slots") is None:
        rate = model_flops / row["units"] * units_per_s_per_gpu
    mfu = _ratio(rate, row.get("peak_flops_per_s_bf16"))
    return {
        "model_flops_per_token": per_token,
        "model_flops_per_s_per_gpu": rate,
        "mfu": mfu,
        "hfu": None if mfu is None or hardware_flops is None else mfu * hardware_flops / model_flops,
        "mode_peak_share": _ratio(rate, row.get("peak_flops_per_s_mode")),
        "matmul_ceiling_flops_per_s": ceiling,
        "matmul_ceiling_share": _ratio(rate, ceiling),
    }


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    if numerator is None or not denominator:
        return None
    return float(numerator / denominator)


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """Interpolate linearly between order statistics: Hyndman and Fan's type 7. numpy rounds some otherwise."""
    if not ordered:
        return None
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (position - below) * (ordered[above] - ordered[below]))
