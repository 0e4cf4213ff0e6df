"""Does this device multiply, and as precisely as the trial's mode says? One small product, held against float64.

A device, a driver or a library that computes nothing, garbage, or less precisely than asked gives figures all the same,
and comparing one of its results with another finds them equal. So one result is held against the host's float64, with a
bound that does not depend on the device.
"""

# M, N = rows and columns of the product, K = terms of each sum

from __future__ import annotations

import math

import torch
from torch.nn import functional

from bench.loop import Precision
from bench.measure.device import Device
from bench.measure.peaks import MatmulPrecision

_M, _N, _K = 48, 80, 64
_ROW_EXPONENTS = 16
"""Rows are as large as 2**16, so that sums exceed what float16 can hold, where no float16 is meant."""
_SUMS = _K * 2.0**-23 / (1 - _K * 2.0**-23)
"""gamma_K of sums in float32. Its unit roundoff is 2**-24; tensor cores cut off instead, which is twice as much."""
_ROUNDINGS_16 = 3
"""Of a 16-bit result: its own, and two of partial sums, which cuBLAS may add up in 16 bits."""

ERROR_LIMITS: dict[MatmulPrecision, float] = {
    "fp32": _SUMS,
    "tf32": 2 * 2.0**-11 + 2.0**-22 + _SUMS,
    "fp16": (2 + _ROUNDINGS_16) * 2.0**-11 + 2.0**-22 + _SUMS,
    "bf16": (2 + _ROUNDINGS_16) * 2.0**-8 + 2.0**-16 + _SUMS,
}
"""Largest relative error of an element that a right product of `product_error` can have, by precision.

Where all numbers are positive, an element's relative error is at most 2u + u^2 from rounding both factors to unit
roundoff u, gamma_K = K v / (1 - K v) from K terms summed with unit roundoff v, and w for each rounding of the result.
Sources: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., 2002, section 3.5; for tensor cores
Blanchard, Higham, Lopez, Mary and Pranesh, "Mixed Precision Block Fused Multiply-Add: Error Analysis and Application to
GPU Tensor Cores", SIAM J. Sci. Comput. 42(3), 2020. u is 2**-11 for TF32 and float16 and 2**-8 for bfloat16, also where
a device cuts off instead of rounding: the digits of the factors are such that both give the same.
"""


def product_error(device: Device, precision: Precision, param_dtype: torch.dtype) -> float:
    """Multiply two small matrices as the trial does and give the largest relative error of an element.

    The factors are positive, and all their digits below bfloat16's, and below float16's and TF32's, are cut off alike:
    so errors of the factors add up, and a type that is too short shows at once. Takes some kilobytes of the device, and
    leaves nothing behind in its allocator. Waits for the device.

    Args:
        device: Where.
        precision: Gives autocast; torch's switches decide the rest.
        param_dtype: Of the stored factors, as of the trial's weights.

    Returns:
        max |found - right| / right over the (M, N) elements, `right` in float64 on the host from the stored factors;
        inf where an element is no number.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several would wait for each other longer than they compute
    try:
        return _product_error(device, precision, param_dtype)
    finally:
        torch.set_num_threads(threads)


def _product_error(device: Device, precision: Precision, param_dtype: torch.dtype) -> float:
    is_short = torch.float16 in (param_dtype, precision.autocast_dtype)
    rows, weight = _factors(0 if is_short else _ROW_EXPONENTS)
    rows, weight = rows.to(param_dtype), weight.to(param_dtype)
    with device.aside(), torch.no_grad(), precision.autocast():
        moved = rows.to(device.torch_device), weight.to(device.torch_device)
        found = functional.linear(*moved).cpu()
        del moved
    right = rows.double() @ weight.double().T
    error = float(((found.double() - right).abs() / right).max())
    return math.inf if math.isnan(error) else error


def _factors(row_exponents: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Make (M, K) and (N, K) float32: 1.ddddddd011011 in binary, seven digits d drawn, rows times powers of two.

    bfloat16 keeps the seven digits, float16 and TF32 keep ten. What they leave out is less than half of their last
    digit, so rounding and cutting off agree.
    """
    generator = torch.Generator().manual_seed(0)
    rows, weight = (
        1 + torch.randint(2**7, (size, _K), generator=generator).float() * 2.0**-7 + 3 * 2.0**-10 + 3 * 2.0**-13
        for size in (_M, _N)
    )
    exponents = torch.arange(_M) % (row_exponents + 1)
    return torch.ldexp(rows, exponents[:, None]), weight
