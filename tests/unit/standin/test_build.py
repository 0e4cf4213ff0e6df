"""Building the stand-in: where, when, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.errors import EnvironmentFault, StorageError
from bench.standin import build

CUDA = "__version__ = '2.14.1+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\n"
CPU = "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"


@pytest.fixture
def torch_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Put a torch of that version file where it is looked for."""

    def say(text: str | None) -> None:
        folder = tmp_path / "torch"
        folder.mkdir(exist_ok=True)
        (folder / "version.py").write_text(text or "", encoding="utf-8")
        spec = None if text is None else SimpleNamespace(origin=str(folder / "__init__.py"))
        monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: spec)
        build.find_torch.cache_clear()

    yield say
    build.find_torch.cache_clear()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, torch_says) -> list[Path]:  # type: ignore[no-untyped-def]
    """Build nothing but a mark, and count how often."""
    torch_says(CUDA)
    built: list[Path] = []

    def compile_nothing(torch_build: build.TorchBuild, compiler: str, out: Path) -> None:
        (out / "built").write_text(torch_build.version, encoding="utf-8")
        built.append(out)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "_compile", compile_nothing)
    monkeypatch.setattr(build, "_compiler", lambda: "/bin/echo")
    return built


def test_a_cuda_torch_is_read_from_its_files(torch_says) -> None:  # type: ignore[no-untyped-def]
    torch_says(CUDA)
    found = build.find_torch()
    assert (found.version, found.cuda) == ("2.14.1+cu130", 13000)
    assert found.architectures.startswith("75,80")


@pytest.mark.parametrize(("text", "says"), [(None, "not installed"), (CPU, "built without")])
def test_a_torch_without_cuda_is_refused(torch_says, text: str | None, says: str) -> None:  # type: ignore[no-untyped-def]
    torch_says(text)
    with pytest.raises(EnvironmentFault, match=says):
        build.find_torch()


def test_it_is_built_once(counted: list[Path]) -> None:
    folder = build.library_folder()
    assert build.library_folder() == folder
    assert len(counted) == 1
    assert (folder / "built").read_text(encoding="utf-8") == "2.14.1+cu130"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_another_torch_is_another_build(counted: list[Path], torch_says) -> None:  # type: ignore[no-untyped-def]
    first = build.library_folder()
    torch_says(CUDA.replace("2.14.1", "2.15.0"))
    assert build.library_folder() != first
    assert len(counted) == 2


def test_of_two_at_once_the_first_stays(counted: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    compile_nothing = build._compile

    def overtaken(torch_build: build.TorchBuild, compiler: str, out: Path) -> None:
        monkeypatch.setattr(build, "_compile", compile_nothing)
        (build.library_folder() / "first").touch()
        compile_nothing(torch_build, compiler, out)

    monkeypatch.setattr(build, "_compile", overtaken)
    folder = build.library_folder()
    assert (folder / "first").exists()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_cache_that_cannot_be_written_is_named(
    counted: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(StorageError, match=r"cannot be built in .*/file/accumbench/standin"):
        build.library_folder()


def test_a_machine_without_a_compiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    build._compiler.cache_clear()
    with pytest.raises(EnvironmentFault, match="install a C compiler"):
        build._compiler()


def test_a_compiler_that_fails_is_quoted() -> None:
    with pytest.raises(EnvironmentFault, match=r"does not compile here \(sh\):\nno such header"):
        build._run(["sh", "-c", "echo no such header >&2; exit 1"])
