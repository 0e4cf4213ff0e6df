"""Hold one product of this rank's device against float64 before the first update, and end a launch that fails."""

from __future__ import annotations

from typing import Any

from bench.check.exchange.lines import ARITHMETIC
from bench.measure.arithmetic import ERROR_LIMITS, product_error
from bench.measure.peaks import matmul_precision
from bench.rank.workbench import Workbench
from bench.standin import has_values, is_standin
from bench.workload.build import PARAM_DTYPES


def arithmetic_columns(bench: Workbench) -> dict[str, Any]:
    """Multiply once as the trial does; null on a stand-in GPU, which computes nothing and says so [one rank]."""
    if bench.device.kind == "cuda" and is_standin() and not has_values():
        return {"matmul_error": None}
    config = bench.trial.config
    return {"matmul_error": product_error(bench.device, bench.loop.precision, PARAM_DTYPES[config.param_dtype])}


def why_arithmetic_is_wrong(bench: Workbench, columns: dict[str, Any]) -> str | None:
    """Say so where a product is further from float64 than its precision explains; None when it is not [one rank]."""
    error, config = columns["matmul_error"], bench.trial.config
    precision = matmul_precision(config.amp_mode, config.param_dtype)
    if error is None or error <= ERROR_LIMITS[precision]:
        return None
    device = bench.device.properties().name
    return (
        f"{ARITHMETIC} a matrix product in {precision} on {device} is off by {error:.1e} of its value, and rounding "
        f"explains {ERROR_LIMITS[precision]:.1e}: the device computes wrongly, or less precisely than asked; see "
        "NVIDIA_TF32_OVERRIDE in the environment, then try another GPU"
    )
