"""Divide FLOPs by seconds, and by what a device can do at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def derive_efficiency(row: Mapping[str, Any], token_slots_per_s_per_gpu: float | None) -> dict[str, Any]:
    """Give the derived columns of the group efficiency.

    FLOPs are spent on token slots, so the rate is that of slots, padding included. It is null unless the outcome is
    ok, and so is every share.

    Args:
        row: The reduced row.
        token_slots_per_s_per_gpu: Its rate, of full windows where they were shortened [token/second].
    """
    model_flops, token_slots = row.get("model_flops"), row.get("token_slots")
    ceilings = row.get("matmul_ceiling_flops_per_s_per_rank") or [None]
    ceiling = None if None in ceilings else min(ceilings)
    per_token = rate = None
    if token_slots_per_s_per_gpu is not None and model_flops is not None:
        per_token = model_flops / token_slots
        rate = per_token * token_slots_per_s_per_gpu
    mfu = _share(rate, row.get("peak_flops_per_s_bf16"))
    hardware_flops = row.get("hardware_flops")
    return {
        "model_flops_per_token": per_token,
        "model_flops_per_s_per_gpu": rate,
        "mfu": mfu,
        "hfu": None if mfu is None or hardware_flops is None else mfu * hardware_flops / model_flops,
        "mode_peak_share": _share(rate, row.get("peak_flops_per_s_mode")),
        "matmul_ceiling_flops_per_s": ceiling,
        "matmul_ceiling_share": _share(rate, ceiling),
    }


def _share(flops_per_s: float | None, of_flops_per_s: float | None) -> float | None:
    return None if flops_per_s is None or not of_flops_per_s else flops_per_s / of_flops_per_s
