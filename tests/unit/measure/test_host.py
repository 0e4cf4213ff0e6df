"""Facts of the host, read from files that may be missing or odd."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.measure import host


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put folders of the test in place of /proc and /sys/fs/cgroup."""
    monkeypatch.setattr(host, "_PROC", tmp_path)
    monkeypatch.setattr(host, "_CGROUP", tmp_path)
    (tmp_path / "self").mkdir()
    return tmp_path


def test_processor_without_a_model_name_is_its_architecture(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ARM kernels give none."""
    monkeypatch.setattr(host.platform, "machine", lambda: "aarch64")
    assert host.cpu_model() == "aarch64"
    (root / "cpuinfo").write_text("processor : 0\nmodel name\t: Some CPU @ 2 GHz\n")
    assert host.cpu_model() == "Some CPU @ 2 GHz"


@pytest.mark.parametrize(
    ("line", "dtypes"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512_bf16 amx_fp16", ["bf16", "fp16"]),
        ("flags\t\t: fpu avx2 avx512f avx512_bf16", ["bf16"]),
        ("flags\t\t: fpu avx2 f16c", []),
        ("Features\t: fp asimd asimdhp bf16", ["bf16", "fp16"]),
        ("processor\t: 0", None),
    ],
)
def test_16_bit_units_are_read_from_the_flags(root: Path, line: str, dtypes: list[str] | None) -> None:
    """Conversion alone (f16c) is no unit, and silence is not absence."""
    assert host.cpu_16bit_dtypes() is None
    (root / "cpuinfo").write_text(f"processor\t: 0\n{line}\n")
    assert host.cpu_16bit_dtypes() == dtypes


def test_peak_of_resident_memory_is_in_bytes(root: Path) -> None:
    """The kernel writes KiB."""
    assert host.host_peak_rss_bytes() is None
    (root / "self" / "status").write_text("VmPeak:\t 9 kB\nVmHWM:\t  2048 kB\n")
    assert host.host_peak_rss_bytes() == 2 * 1024**2


def test_limits_of_a_container_are_read_and_no_limit_is_null(root: Path) -> None:
    """cgroup v2 writes `max` where there is no limit; older systems have no such file."""
    assert (host.cgroup_cores(), host.cgroup_memory_bytes()) == (None, None)
    (root / "cpu.max").write_text("150000 100000\n")
    (root / "memory.max").write_text("1073741824\n")
    assert (host.cgroup_cores(), host.cgroup_memory_bytes()) == (1.5, 1 << 30)
    (root / "cpu.max").write_text("max 100000\n")
    (root / "memory.max").write_text("max\n")
    assert (host.cgroup_cores(), host.cgroup_memory_bytes()) == (None, None)
