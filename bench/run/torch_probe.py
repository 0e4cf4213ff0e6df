"""Tell what torch is and sees, as JSON on stdout; a program of its own, so that the driver stays free of torch."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

from bench.measure.versions import nccl_version


def probe() -> dict[str, Any]:
    """Ask torch for its build and for the GPUs it can use."""
    import torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        problem = None
        try:
            if count:
                torch.zeros(1, device="cuda")
        except RuntimeError as error:
            count, problem = 0, str(error).splitlines()[0]
        devices = [torch.cuda.get_device_properties(index) for index in range(count)]
    said = [str(warning.message).splitlines()[0] for warning in caught]
    return {
        "torch_version": torch.__version__,
        "cuda_version": torch.version.cuda,
        "device_count": count,
        "device_names": [device.name for device in devices],
        "bf16_supported": bool(count) and torch.cuda.is_bf16_supported(including_emulation=False),
        "nccl_version": nccl_version() if count else None,
        "problem": problem or (said[0] if said else None),
    }


if __name__ == "__main__":
    json.dump(probe(), sys.stdout)
