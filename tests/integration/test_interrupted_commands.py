"""A signal or a limit ends every command in words, whatever it waits for, and nothing is left of it. Real processes.

That it takes no longer than 10 s is measured by `benchmarks/endings.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.launch.heartbeat import read_beat
from bench.launch.process_table import ProcessId, descendants, identify, is_alive
from tests.integration.conftest import NANO
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow


@dataclass
class Command:
    """Run `bench` as a program, and watch what it starts."""

    folder: Path
    seen: set[ProcessId] = field(default_factory=set)

    def start(self, *arguments: str, faults: str = "", program: Sequence[str] = ("bench.cli",)) -> None:
        """Start it in the folder."""
        (self.folder / "faults").write_text(faults)
        package = str(Path(__file__).parents[2])
        environment = os.environ | {"BENCH_FAULTS": str(self.folder / "faults"), "PYTHONPATH": package}
        environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *program, *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def sweep_file(self, changes: Callable[[dict[str, Any]], None] = lambda document: None) -> str:
        """Write a sweep file; give its name."""
        document = json.loads(json.dumps(NANO))
        document["axes"] = {"micro_batch_size": [1, 2]}
        changes(document)
        (self.folder / "asked.yaml").write_text(json.dumps(document))
        return "asked.yaml"

    def look(self) -> set[ProcessId]:
        """Note what there is below it now, and give all that was ever seen."""
        self.seen |= {identify(pid) for pid in descendants(self.process.pid)}
        return self.seen

    def process_with(self, words: str) -> int:
        """Wait for a process below it whose command line has these words; give its number."""

        def find() -> int | None:
            assert self.process.poll() is None, self.process.communicate()
            for pid in descendants(self.process.pid):
                try:
                    if words in " ".join(psutil.Process(pid).cmdline()):
                        return pid
                except psutil.Error:
                    continue
            return None

        return wait_until(find, f"a process with {words}")

    def stop_server(self) -> None:
        """Stop its fork server: from now on it answers nothing."""
        os.kill(self.process_with("multiprocessing.forkserver"), signal.SIGSTOP)

    def wait_for_file(self, name: str) -> None:
        """Wait until a file of this name is there."""

        def is_there() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return (self.folder / name).exists()

        wait_until(is_there, name)

    def wait_for_rank(self, pattern: str, phase: str) -> int:
        """Wait until rank 0 of a launch is in this phase; give the number of the process."""
        server = self.process_with("multiprocessing.forkserver")

        def is_there() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            beats = [read_beat(path) for path in self.folder.glob(f"**/{pattern}/rank-0.heartbeat")]
            return any(beat is not None and beat.phase == phase for beat in beats)

        wait_until(is_there, f"a rank in {phase}")
        (rank, *_) = descendants(server)
        return rank

    def ends(self, code: int) -> tuple[str, str]:
        """Wait for its end, see that nothing is left, and give what it printed."""
        self.look()
        stdout, stderr = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == code, stderr
        assert "Traceback" not in stdout + stderr
        wait_until(lambda: not any(map(is_alive, self.seen)), "nothing is left")
        return stdout, stderr


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """Give a command; whatever the test found, nothing of it lives on."""
    command = Command(tmp_path)
    yield command
    if command.process.poll() is None:
        for process in command.look():
            if is_alive(process):
                os.kill(process.pid, signal.SIGKILL)
        command.process.kill()
        command.process.communicate()


ENDING = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)


@ENDING
def test_signal_while_the_server_of_a_sweep_stalls(command: Command, number: signal.Signals) -> None:
    """F15, F16: before the first launch, which waits for it."""
    command.start("sweep", command.sweep_file(), "--no-plot")
    command.stop_server()
    command.wait_for_file("results/nano/logs")
    command.process.send_signal(number)
    _, said = command.ends(128 + number)
    assert "interrupted; finished launches are kept in results/nano, about 2 are left." in said


@ENDING
def test_signal_while_the_server_of_a_check_stalls(command: Command, number: signal.Signals) -> None:
    """Nothing was proved, and no line says so."""
    command.start("check", command.sweep_file())
    command.stop_server()
    command.process.send_signal(number)
    assert command.ends(128 + number) == ("", "interrupted\n")


def test_time_limit_of_a_check_holds_while_its_server_stalls(command: Command) -> None:
    """The start of its processes counts: all is NOT PROVEN, and no line failed."""
    command.start("check", command.sweep_file(), "--time-limit-s", "1", "--format", "json")
    command.stop_server()
    printed, said = command.ends(0)
    rows = json.loads(printed)["rows"]
    assert {row["verdict"] for row in rows} == {"NOT PROVEN"}
    assert {row["words"] for row in rows} == {"it did not end within 1 s"}
    assert said == "1 configuration: 1 NOT PROVEN\n"


def test_time_limit_of_a_sweep_holds_while_its_server_stalls(command: Command) -> None:
    """The launch that waited is interrupted, and the sweep can be resumed."""
    command.start("sweep", command.sweep_file(), "--no-plot", "--time-limit-s", "5")
    command.stop_server()
    _, said = command.ends(143)
    assert "no launch fits in what is left of the time limit of 5 s; finished launches are kept" in said


@ENDING
def test_signal_during_a_proof_of_a_sweep(command: Command, number: signal.Signals) -> None:
    """F15, F16: it is ended as a launch is; a stopped rank stands for a proof that takes long."""
    command.start("sweep", command.sweep_file(), "--no-plot")
    os.kill(command.wait_for_rank("proof-*", "prove"), signal.SIGSTOP)
    command.process.send_signal(number)
    _, said = command.ends(128 + number)
    assert "interrupted; finished launches are kept in results/nano, about 2 are left." in said


@ENDING
def test_signal_during_a_proof_of_a_check(command: Command, number: signal.Signals) -> None:
    """The user's step is in the middle of something that takes long."""
    source = "import pathlib, time\ndef step(model, optimizer, micro_batches):\n"
    source += "    pathlib.Path('begun').touch()\n    time.sleep(36000)\n"
    (command.folder / "mine.py").write_text(source)
    command.start("check", "--step", "mine:step", "--time-limit-s", str(PATIENCE_S))
    command.wait_for_file("begun")
    command.process.send_signal(number)
    assert command.ends(128 + number) == ("", "interrupted\n")


def test_signal_during_a_search(command: Command) -> None:
    """F15: a launch of a search is a launch."""
    search = command.sweep_file(lambda document: document.update(axes={"micro_batch_size": {"max": 4}}))
    command.start("sweep", search, "--no-plot", faults="forward:2:sleep")
    command.wait_for_rank("*-r0-a0", "forward")
    command.process.send_signal(signal.SIGINT)
    _, said = command.ends(130)
    assert "interrupted; finished launches are kept in results/nano" in said


def test_signal_during_launches_side_by_side(command: Command) -> None:
    """F16: of `bench compare --run`, with the command that goes on."""
    command.start("compare", command.sweep_file(), "--run", "--out", "pair", faults="forward:2:sleep")
    command.wait_for_rank("*-r0-a0", "forward")
    command.process.send_signal(signal.SIGTERM)
    _, said = command.ends(143)
    assert "interrupted; finished launches are kept" in said
    assert "bench compare asked.yaml --run --blocks 6 --out pair" in said


@ENDING
def test_signal_during_a_calibration(command: Command, number: signal.Signals) -> None:
    """What measures is a process of its own, and ends too."""
    command.start("env", "--device", "cpu", "--calibrate")
    os.kill(command.process_with("bench.rank.ceilings_probe"), signal.SIGSTOP)
    command.process.send_signal(number)
    printed, said = command.ends(128 + number)
    assert printed == ""
    assert said == "measuring the ceilings of the device ...\ninterrupted\n"


@ENDING
def test_signal_while_a_corpus_is_prepared(command: Command, number: signal.Signals) -> None:
    """It may take minutes, and nothing was begun that must not be torn; the folder is not held any more."""
    command.start("sweep", command.sweep_file(), "--no-plot", program=("tests.integration.long_corpus", "begun"))
    command.wait_for_file("begun")
    command.process.send_signal(number)
    assert command.ends(128 + number) == ("", "interrupted\n")
    assert not list((command.folder / "results" / "nano").glob(".lock.*"))
