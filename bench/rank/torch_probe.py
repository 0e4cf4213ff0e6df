"""Tell what torch is and sees, as JSON on stdout; a program of its own, so that the driver stays free of torch.

With `--every-gpu` each GPU computes something, which takes a moment and some memory on each; else the first one does.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

from bench.measure.versions import cudnn_version, nccl_version


def probe(every_gpu: bool = False) -> dict[str, Any]:
    """Ask torch for its build and for the GPUs it can use."""
    import torch
    import torch.distributed as dist

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        gpus = [_probe_gpu(index, try_it=every_gpu or index == 0) for index in range(found)]
    problems = [gpu["problem"] for gpu in gpus if gpu["problem"]]
    problems += [str(warning.message).splitlines()[0] for warning in caught]
    # Ranks take the first GPUs, so those behind one that cannot be used do not count.
    count = next((index for index, gpu in enumerate(gpus) if gpu["problem"]), found)
    return {
        "torch_version": torch.__version__,
        "cuda_version": torch.version.cuda,
        "cudnn_version": cudnn_version() if found else None,
        "nccl_version": nccl_version() if torch.version.cuda else None,
        "has_gloo": dist.is_available() and dist.is_gloo_available(),
        "device_count": count,
        "gpus": gpus,
        "bf16_supported": bool(count) and torch.cuda.is_bf16_supported(including_emulation=False),
        "problem": problems[0] if problems else None,
    }


def _probe_gpu(index: int, try_it: bool) -> dict[str, Any]:
    """State one GPU as torch sees it; computing on it tells whether it can be used."""
    import torch

    try:
        properties: Any = torch.cuda.get_device_properties(index)
        uuid = getattr(properties, "uuid", None)
        facts = {
            "name": properties.name,
            "uuid": None if uuid is None else f"GPU-{uuid}",
            "total_bytes": properties.total_memory,
            "compute_capability": f"{properties.major}.{properties.minor}",
        }
        if try_it:
            # A sum needs a kernel for this GPU, and reading it waits: either may be what does not work.
            float(torch.ones(2, device=f"cuda:{index}").sum())
    except (RuntimeError, AssertionError) as error:
        empty = {"name": None, "uuid": None, "total_bytes": None, "compute_capability": None}
        return {"index": index, **empty, "problem": str(error).splitlines()[0]}
    return {"index": index, **facts, "problem": None}


if __name__ == "__main__":
    json.dump(probe("--every-gpu" in sys.argv[1:]), sys.stdout)
