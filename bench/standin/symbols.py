"""Which functions of CUDA's libraries torch asks for, read from its own files, and a stub for each.

The stubs are weak: where the C sources define a function, theirs is taken. So nothing needs to know which those are.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from bench.errors import EnvironmentFault

_LIBRARIES = ("c10_cuda", "torch_cuda", "torch_python", "torch_cpu", "torch_cuda_linalg", "caffe2_nvrtc", "torch")
_CUDA_NAME = re.compile(
    r"(?:cu[A-Z]|cuda|cublas|cudnn|cufft|cufile|cupti|curand|cusolver|cusparse|nccl|nvml|__cuda)[A-Za-z0-9_]*"
)
_ASKED_BY_NAME = re.compile(
    rb"\0((?:cu(?:Ctx|Dev|Green|Mem|Multicast|Stream|Launch|Func|Module|Logs)|nvml)[A-Z]?[A-Za-z0-9_]+)(?=\0)"
)
_PRODUCT = re.compile(r"cublas(?!Lt|Set|Get|Create|Destroy|Xt).*")
_QUIET = re.compile(
    r"cublas.*|cupti.*|curand.*|cufft.*|cuFile.*"
    r"|cudnn(?:Create|Destroy|Set|BatchNormalization|Convolution|RNN|Pooling|Dropout).*"
    r"|cusolverDn(?:Create|Destroy|Set).*|cusparse(?:Create|Destroy|Set).*"
    r"|cuda(?:DeviceReset|DeviceEnablePeerAccess|DeviceSetLimit|DeviceSetGraphMemAttribute|Profiler(?:Start|Stop))"
    r"|cuda(?:FuncSetCacheConfig|LibraryUnload|MemcpyToSymbol|StreamUpdateCaptureDependencies(?:_v2)?)"
    r"|cudaMemPool(?:SetAttribute|SetAccess|TrimTo)"
    r"|cuda(?:GraphUpload|GraphDestroy|UserObjectRelease|GraphRetainUserObject)"
    r"|cu(?:DevicePrimaryCtxRelease_v2|CtxSynchronize|CtxSetLimit|LogsUnregisterCallback|MemSetAccess)"
    r"|cu(?:ModuleUnload|FuncSetAttribute|FuncSetCacheConfig|FuncLoad)"
    r"|nccl(?:CommDeregister|RedOpDestroy)"
)
"""What does nothing and succeeds. The rest that is not written by hand refuses, and says its name."""
_CREATES = re.compile(r"(?:cudnn|cusolverDn|cusparse|cufft|curand)Create.*")
_ALWAYS = ("cuCtxSynchronize", "cuCtxSetLimit", "cuFuncLoad", "cuModuleUnload", "cuFuncSetAttribute", "cudaGraphUpload")
"""What Triton's launcher asks besides."""


def wanted_symbols(torch_lib: Path) -> set[str]:
    """List the functions of CUDA's libraries that torch imports, or asks for by name while it runs.

    Args:
        torch_lib: the folder `torch/lib` of a CUDA build.

    Raises:
        EnvironmentFault: One of its files is no whole 64-bit library.
    """
    imported: set[str] = set()
    own: set[str] = set()
    asked: set[str] = set()
    for name in _LIBRARIES:
        path = torch_lib / f"lib{name}.so"
        if not path.exists():
            continue
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
                elf = _Elf(image)
                for symbol, is_defined in elf.symbols():
                    (own if is_defined else imported).add(symbol)
                if name in ("c10_cuda", "torch_cuda"):
                    asked |= {found.decode() for found in _ASKED_BY_NAME.findall(elf.section(".rodata"))}
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise EnvironmentFault(
                f"torch's library cannot be read; is torch installed whole? {path}: {error}"
            ) from error
    return {name for name in (imported | asked) - own if _CUDA_NAME.fullmatch(name)} | set(_ALWAYS)


def stub_source(names: set[str]) -> str:
    """Write C for a weak stub of each function."""
    lines = [
        '#include "standin.h"',
        '#define STUB __attribute__((visibility("default"), weak)) int',
        "int standin_product(const char *name);",
    ]
    lines += [_stub(name) for name in sorted(names)]
    return "\n".join(lines) + "\n"


def _stub(name: str) -> str:
    if _PRODUCT.fullmatch(name):
        return f'STUB {name}(void) {{ return standin_product("{name}"); }}'
    if _CREATES.fullmatch(name):  # the handle is its own address: never read, only passed on
        return f"STUB {name}(void **out) {{ *out = (void *)out; return 0; }}"
    if _QUIET.fullmatch(name):
        return f"STUB {name}(void) {{ return 0; }}"
    return f'STUB {name}(void) {{ standin_refuse("{name}"); return {_not_supported(name)}; }}'


def _not_supported(name: str) -> int:
    """Give the code by which a function of that library says that it is not supported."""
    for start, code in (("cublas", 15), ("nvml", 3), ("nccl", 3), ("cudnn", 3000), ("cusolver", 6), ("cusparse", 6)):
        if name.startswith(start):
            return code
    return 801 if re.match(r"cuda|cu[A-Z]|__cuda", name) else 6


class _Elf:
    """Read a 64-bit shared library of this machine: its dynamic symbols and its sections."""

    def __init__(self, image: mmap.mmap) -> None:
        self.image = image
        if image[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit little-endian library")
        (table,) = struct.unpack_from("<Q", image, 0x28)
        entry_bytes, count, names_index = struct.unpack_from("<HHH", image, 0x3A)
        rows = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * entry_bytes) for i in range(count)]
        names_at = rows[names_index][4]
        self.sections = {self.text(names_at + row[0]): (row[4], row[5]) for row in rows}

    def text(self, at: int) -> str:
        return self.image[at : self.image.find(b"\0", at)].decode()

    def section(self, name: str) -> bytes:
        at, size = self.sections.get(name, (0, 0))
        return self.image[at : at + size]

    def symbols(self) -> Iterator[tuple[str, bool]]:
        """Give each dynamic symbol's name and whether the library defines it."""
        strings_at = self.sections[".dynstr"][0]
        for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", self.section(".dynsym")):
            if self.image[strings_at + name : strings_at + name + 2] != b"_Z":
                yield self.text(strings_at + name), section != 0
