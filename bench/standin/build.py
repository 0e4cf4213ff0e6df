"""Build the stand-in for the torch of this environment, once, in the user's cache. Needs only a C compiler."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.errors import EnvironmentFault, StorageError
from bench.standin.symbols import stub_source, wanted_symbols

LIBRARIES = ("libstandin.so", "libcuda.so.1", "libnvidia-ml.so.1")
"""What a process loads, in this order; the last two are empty, and found under the names that the driver's have."""
_SOURCES = Path(__file__).with_name("src")
_FLAGS = ("-O1", "-w", "-fPIC", "-fvisibility=hidden")
_COMPILE_LIMIT_S = 300.0


@dataclass(frozen=True)
class TorchBuild:
    """State the torch of this environment, as its files tell it; nothing of it is imported."""

    folder: Path
    version: str
    """Such as 2.14.1+cu130."""
    cuda: int
    """Such as 13000 for CUDA 13.0."""
    cudnn: int
    """As `cudnnGetVersion` counts: 92400 for 9.24.0."""
    nccl: int
    """As `ncclGetVersion` counts: 23007 for 2.30.7."""

    @property
    def architectures(self) -> str:
        """For which GPUs its kernels were compiled, as published for each CUDA: `80,90,...`."""
        if self.cuda >= 13000:
            return "75,80,86,90,100,120"
        return "75,80,86,90,100,120" if self.cuda >= 12080 else "50,60,70,75,80,86,90"


@cache
def find_torch() -> TorchBuild:
    """Read which torch is installed.

    Raises:
        EnvironmentFault: There is none, or it was built without CUDA.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise EnvironmentFault("the stand-in GPU needs torch, which is not installed here")
    folder = Path(spec.origin).parent
    text = (folder / "version.py").read_text(encoding="utf-8")
    version = re.search(r"^__version__.*?= '([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda\b.*?= '(\d+)\.(\d+)", text, re.MULTILINE)
    if version is None or cuda is None:
        raise EnvironmentFault(
            "the stand-in GPU needs a torch built for CUDA; the one installed here is built without. "
            "Install a CUDA build, in an environment of its own if this one shall stay small."
        )
    major, minor = int(cuda[1]), int(cuda[2])
    return TorchBuild(
        folder=folder,
        version=version[1],
        cuda=major * 1000 + minor * 10,
        cudnn=_wheel_version(f"nvidia-cudnn-cu{major}", otherwise="9.99.0"),
        nccl=_wheel_version(f"nvidia-nccl-cu{major}", otherwise="2.99.0"),
    )


def _wheel_version(name: str, otherwise: str) -> int:
    """Count a library's version as it does itself; torch refuses one that is older than it was built with."""
    try:
        text = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # torch did not come from wheels
        text = otherwise
    major, minor, patch = (int(part) for part in text.split(".")[:3])
    return major * 10000 + minor * 100 + patch


def library_folder() -> Path:
    """Give the folder of the built libraries, building them first where that was not done for this torch.

    Raises:
        EnvironmentFault: No CUDA build of torch, no C compiler, or it fails.
        StorageError: The cache cannot be written.
    """
    torch_build = find_torch()
    compiler = _compiler()
    folder = _cache() / _key(torch_build, compiler)
    if not folder.is_dir():
        try:
            _cache().mkdir(parents=True, exist_ok=True)
            _build_aside(torch_build, compiler, folder)
        except OSError as error:
            raise StorageError(f"the stand-in GPU cannot be built in {_cache()}: {error}") from error
    return folder


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "accumbench" / "standin"


@cache
def _compiler() -> str:
    found = shutil.which(os.environ.get("CC", "cc"))
    if found is None:
        raise EnvironmentFault("the stand-in GPU is compiled on first use: install a C compiler (cc)")
    return found


def _key(torch_build: TorchBuild, compiler: str) -> str:
    """Name a build by all that decides it."""
    says = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    digest = hashlib.sha256(repr((torch_build, says.stdout, _FLAGS, platform.machine())).encode())
    for path in [*sorted(_SOURCES.iterdir()), Path(__file__).with_name("symbols.py")]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:24]


def _build_aside(torch_build: TorchBuild, compiler: str, folder: Path) -> None:
    """Build in a folder of its own and rename it: another process sees all of it or nothing."""
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as name:
        aside = Path(name) / "standin"
        aside.mkdir()
        _compile(torch_build, compiler, aside)
        try:
            aside.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, and built the same
                raise


def _compile(torch_build: TorchBuild, compiler: str, out: Path) -> None:
    stubs = out / "stubs.c"
    stubs.write_text(stub_source(wanted_symbols(torch_build.folder / "lib")), encoding="utf-8")
    versions = [f"-DSTANDIN_{name.upper()}={getattr(torch_build, name)}" for name in ("cuda", "cudnn", "nccl")]
    sources = [*sorted(_SOURCES.glob("*.c")), stubs]
    shared = [compiler, "-shared", *_FLAGS]
    standin, *found_by_name = LIBRARIES
    _run([*shared, f"-I{_SOURCES}", *versions, f"-Wl,-soname,{standin}", "-o", str(out / standin), *map(str, sources),
          "-lpthread", "-ldl", "-lrt"])  # fmt: skip
    empty = out / "empty.c"
    empty.touch()
    for library in found_by_name:
        link = ["-Wl,--no-as-needed", f"-L{out}", "-lstandin", "-Wl,-rpath,$ORIGIN"]
        _run([*shared, f"-Wl,-soname,{library}", "-o", str(out / library), str(empty), *link])
    stubs.unlink()
    empty.unlink()


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"the C compiler did not end within {_COMPILE_LIMIT_S:g} s: {command[0]}") from error
    if done.returncode:
        says = "\n".join(done.stderr.splitlines()[:10])
        raise EnvironmentFault(f"the stand-in GPU does not compile here ({command[0]}):\n{says}")
