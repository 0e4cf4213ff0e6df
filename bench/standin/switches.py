"""Put the stand-in under a process: this one before it imports torch, or a child through its environment."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from bench.errors import BenchError, EnvironmentFault
from bench.standin.build import LIBRARIES, find_torch, library_folder
from bench.standin.gpus import gpu_facts

_MOST_GPUS = 16


@dataclass(frozen=True)
class Faults:
    """State what goes wrong on the GPU, for tests. Kernels are counted from 1 in each process; None: nothing."""

    refuse_at_byte: int | None = None
    """No allocation that would take this process's own above so many bytes of one GPU, though more is free [bytes]."""
    blas_refused: bool = False
    """cuBLAS does not start."""
    blas_needs_bytes: int | None = None
    """cuBLAS does not start where fewer bytes of the GPU are free [bytes]."""
    illegal_access_at_launch: int | None = None
    """This kernel reads where it must not; every call after it fails."""
    ecc_at_launch: int | None = None
    """During this kernel a memory error that cannot be corrected; every call after it fails."""
    hang_at_launch: int | None = None
    """This kernel never ends."""
    persistence_off: bool = False
    """NVML says that the driver is unloaded when nobody uses the GPU."""

    def variables(self) -> dict[str, str]:
        """Write them as environment variables."""
        return {
            f"STANDIN_{name.upper()}": str(int(value))
            for name, value in vars(self).items()
            if value is not None and value is not False
        }


class Switches(TypedDict, total=False):
    """What `environment` and `load` take; each may be left out."""

    gpu: str
    """Which GPU, such as `a100-80gb`, the default; see `GPUS`."""
    count: int
    """GPUs of the machine, 1 to 16; 1 unless given."""
    memory_bytes: int | None
    """Another capacity per GPU than the real one [bytes]."""
    ledger: Path | None
    """A file, made when missing, through which processes share the GPUs' memory and NVML sees it; without one each
    process has the GPUs for itself."""
    copy_bytes: int | None
    """Copies to a GPU and collectives above this move no values [bytes]; 1 MiB unless given."""
    context_bytes: int | None
    """What a process takes of a GPU beside its allocations [bytes]; 450 MiB unless given, which is an assumption."""
    nvml_script: Path | None
    """A file that tells what NVML's sensors say; read again at every question."""
    trace: Path | None
    """A file that gets a line for each launch, allocation, copy and wait of the process."""
    values: bool
    """Whether a test computes what kernels would have: the rows of the product then keep losses, though never speed."""
    faults: Faults
    """What goes wrong."""


def settings(switches: Switches) -> dict[str, str]:
    """Write the switches as the C side reads them.

    Raises:
        BenchError: No such GPU, or not so many.
        EnvironmentFault: No CUDA build of torch.
    """
    count = switches.get("count", 1)
    if not 1 <= count <= _MOST_GPUS:
        raise BenchError(f"count: the stand-in has 1 to {_MOST_GPUS} GPUs, not {count}")
    told: dict[str, object] = {
        "STANDIN_GPU": gpu_facts(switches.get("gpu", "a100-80gb"), switches.get("memory_bytes")),
        "STANDIN_GPU_COUNT": count,
        "STANDIN_ARCHITECTURES": find_torch().architectures,
        "STANDIN_LEDGER": switches.get("ledger"),
        "STANDIN_COPY_BYTES": switches.get("copy_bytes"),
        "STANDIN_CONTEXT_BYTES": switches.get("context_bytes"),
        "STANDIN_NVML": switches.get("nvml_script"),
        "STANDIN_TRACE": switches.get("trace"),
        "STANDIN_VALUES": int(switches["values"]) if "values" in switches else None,
    }
    written = {name: str(value) for name, value in told.items() if value is not None}
    return written | switches.get("faults", Faults()).variables()


def environment(**switches: Unpack[Switches]) -> dict[str, str]:
    """Give the variables under which a child process finds the stand-in where the CUDA libraries would be.

    Builds the library first where that was not done. The variables are added to the child's own. CUDA_VISIBLE_DEVICES
    is not among them: the stand-in follows it.

    Raises:
        BenchError: No such GPU, or not so many.
        EnvironmentFault: No CUDA build of torch, or no C compiler.
        StorageError: The user's cache cannot be written.
    """
    told = settings(switches)
    folder = library_folder()
    others = [path for path in os.environ.get("LD_PRELOAD", "").split(":") if path and Path(path).name not in LIBRARIES]
    preload = ":".join([*(str(folder / name) for name in LIBRARIES), *others])
    return {**told, "LD_PRELOAD": preload, "TRITON_LIBCUDA_PATH": str(folder)}


def load(**switches: Unpack[Switches]) -> None:
    """Load the stand-in into this process, before it imports torch.

    Processes forked from this one have it too; others need `environment`.

    Raises:
        BenchError: As `environment`; or torch or the stand-in is loaded already.
    """
    if "torch" in sys.modules:
        raise BenchError("the stand-in GPU must be loaded before torch is imported")
    if is_standin():
        raise BenchError("the stand-in GPU is loaded already; its switches are read once")
    told = settings(switches)
    folder = library_folder()
    os.environ.update(told)
    try:
        for name in LIBRARIES:
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise EnvironmentFault(f"the stand-in GPU cannot be loaded: {error}") from error


def is_standin() -> bool:
    """Tell whether the GPUs that this process sees are the stand-in's."""
    return hasattr(ctypes.CDLL(None), "standin_version")


def has_values() -> bool:
    """Tell whether a test says that it computes what the stand-in's kernels would have."""
    return is_standin() and os.environ.get("STANDIN_VALUES") == "1"
