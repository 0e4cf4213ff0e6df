"""The ceilings of this machine's devices: measured on request, kept in the user's cache folder, read by every rank.

One file per device, torch version and number of threads, so that a ceiling is only ever used for what it was measured
on. A damaged file is reported and ignored. No torch.
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from bench.errors import EnvironmentFault
from bench.measure.peaks import MatmulPrecision
from bench.record.atomic import write_atomically
from bench.standin import is_standin
from bench.workload.data.cache import cache_folder

_FORMAT = 1
_PROBE_TIMEOUT_S = 900.0

BUSY_SPREAD = 0.1
"""Spread above which a ceiling counts as disturbed by other work: it is kept and shown, but never used."""


@dataclass(frozen=True)
class DeviceKey:
    """Name what a calibration holds for."""

    device: Literal["cpu", "cuda"]
    name: str
    """As torch tells it; the processor's model on a CPU."""
    uuid: str | None
    """Of the GPU; null on a CPU."""
    hostname: str | None
    """Stands for the UUID of a CPU; null for a GPU, which is the same in any host."""
    threads: int | None
    """CPU threads of torch; null for a GPU."""
    torch_version: str

    @classmethod
    def cpu(cls, name: str, threads: int, torch_version: str) -> DeviceKey:
        """Name this host's processor with so many threads."""
        return cls("cpu", name, None, socket.gethostname(), threads, torch_version)

    @classmethod
    def gpu(cls, name: str, uuid: str, torch_version: str) -> DeviceKey:
        """Name one GPU."""
        return cls("cuda", name, uuid, None, None, torch_version)

    def path(self) -> Path:
        """Name the file of its calibration."""
        canonical = json.dumps({"format": _FORMAT, **asdict(self)}, sort_keys=True)
        name = hashlib.sha256(canonical.encode()).hexdigest()[:32]
        return cache_folder().parent / "ceilings" / f"{name}.json"


@dataclass(frozen=True)
class Stored:
    """State what is kept for a device."""

    document: dict[str, Any] | None
    """The calibration; None where there is none that can be used."""
    problem: str | None = None
    """What is wrong with the file, in plain words; None when nothing is."""

    def matmul_flops_per_s(self, precision: MatmulPrecision) -> float | None:
        """Give the ceiling of matrix products in a precision [FLOP/s]; None where it was not measured undisturbed."""
        found = None if self.document is None else self.document["matmul"].get(precision)
        return None if found is None or found["spread"] > BUSY_SPREAD else float(found["per_s"])


def calibrate(device: str, threads: int | None = None) -> list[dict[str, Any]]:
    """Measure the ceilings of the devices of a kind in a process of its own, and keep them.

    Args:
        device: cpu, or cuda for every GPU that torch can use, one after another.
        threads: CPU threads; None for all cores that may be used.

    Returns:
        The documents, as kept.

    Raises:
        EnvironmentFault: The device does not answer.
        StorageError: The cache folder cannot be written.
    """
    if device == "cuda" and is_standin():
        raise EnvironmentFault("the GPU here is a stand-in, which has no speed: there is nothing to calibrate")
    command = [sys.executable, "-m", "bench.rank.ceilings_probe", device, *([] if threads is None else [str(threads)])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True)
        measured: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(
            f"the calibration did not finish within {_PROBE_TIMEOUT_S:.0f} s: it may hang."
        ) from None
    except (subprocess.CalledProcessError, ValueError, IndexError) as error:
        said = (getattr(error, "stderr", None) or "").strip().splitlines()[-1:] or ["no output"]
        raise EnvironmentFault(f"the calibration failed: {said[0]}") from None
    return [keep(DeviceKey(**entry.pop("key")), entry) for entry in measured]


def keep(key: DeviceKey, ceilings: dict[str, Any]) -> dict[str, Any]:
    """Store the ceilings of one device in place of older ones; give the document.

    Raises:
        StorageError: The cache folder cannot be written.
    """
    measured_utc = datetime.now(UTC).isoformat(timespec="seconds")
    document = {"format": _FORMAT, "key": asdict(key), "measured_utc": measured_utc, **ceilings}
    write_atomically(key.path(), json.dumps(document, indent=1).encode())
    return document


def read(key: DeviceKey) -> Stored:
    """Read the ceilings of one device; never raises."""
    path = key.path()
    try:
        document = json.loads(path.read_text())
        if document["format"] != _FORMAT or document["key"] != asdict(key):
            raise ValueError("it is of another device")
        if not all(found is None or _is_ceiling(found) for found in _ceilings(document)):
            raise ValueError("a ceiling is not a number above 0")
    except FileNotFoundError:
        return Stored(None)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        why = str(error) if isinstance(error, OSError) else "it is damaged or of another device"
        return Stored(None, f"the calibration in {path} is not used: {why}. Run: bench env --calibrate")
    return Stored(document)


def _ceilings(document: dict[str, Any]) -> list[Any]:
    return [*document["matmul"].values(), document["copy"], document["host_to_device"]]


def _is_ceiling(found: dict[str, Any]) -> bool:
    return bool(0 < found["per_s"] < float("inf") and found["spread"] >= 0)
