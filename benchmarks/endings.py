"""How long a sweep takes to end, and whether anything of it is left: `python benchmarks/endings.py [TIMES]`.

Starts `bench sweep` with ranks that misbehave on purpose, and either sends the driver SIGINT, once, and waits for its
end (METHOD.md, goal R4), or kills it, and waits until no process of its ranks is left (goal R2). Then commands that
wait for something else than their ranks: a server that starts or stalls, a proof.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.launch.heartbeat import read_beat
from bench.launch.process_table import descendants, identify, is_alive, with_token

# Name to the fault of each rank in its second update, and the ranks.
SCENES = {
    "a rank at work": ("", 1),
    "a rank asleep": ("forward:6:sleep", 1),
    "a rank deaf to all but SIGKILL": ("forward:6:deaf", 1),
    "a stopped rank": ("forward:6:stop", 1),
    "two ranks at work": ("", 2),
    "two ranks inside a collective": ("update:2:block", 2),
}


def sweep_file(folder: Path, ranks: int) -> Path:
    """Write a sweep whose trials would run for minutes."""
    document = {
        "format": 1,
        "name": "endings",
        "base": {
            "device": "cpu",
            "model": {"preset": "gpt2-nano"},
            "data": {"synthetic": {"documents": 400, "mean_tokens": 20}, "rows": "ragged"},
            "seq_len": 32,
            "global_batch_size": 4,
            "world_size": ranks,
            "cpu_threads_per_rank": 1,
        },
        "axes": {"micro_batch_size": [1]},
        "measure": {"warmup_updates": 1, "updates": 200_000, "quality_updates": 0, "timeout_s": 600.0},
    }
    path = folder / "sweep.yaml"
    path.write_text(json.dumps(document))
    return path


def start(folder: Path, fault: str, ranks: int) -> tuple[subprocess.Popen[bytes], str]:
    """Start the sweep and wait until all its ranks are in their second update; give it and the token of its ranks."""
    (folder / "faults").write_text(fault)
    results = folder / "results"
    command = [sys.executable, "-m", "bench.cli", "sweep", str(sweep_file(folder, ranks)), "--out", str(results)]
    environment = os.environ | {"BENCH_FAULTS": str(folder / "faults")}
    process = subprocess.Popen(
        [*command, "--no-plot"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until(lambda: sum(is_there(path) for path in results.glob("logs/*-r0-a0/*.heartbeat")) == ranks)
    time.sleep(0.3)
    records = [json.loads(line)["record"] for line in (results / "journal.jsonl").read_text().splitlines()]
    return process, next(record["token"] for record in records if record["kind"] == "running")


def is_there(heartbeat: Path) -> bool:
    """Tell whether a rank has begun its second update."""
    beat = read_beat(heartbeat)
    return beat is not None and beat.update >= 1


def until(condition: Callable[[], bool], limit_s: float = 120.0) -> float:
    """Wait, and say how long it took [s]."""
    begin_s = time.monotonic()
    while not condition():
        if time.monotonic() - begin_s > limit_s:
            raise TimeoutError(f"not within {limit_s:g} s")
        time.sleep(0.005)
    return time.monotonic() - begin_s


def end(fault: str, ranks: int, number: signal.Signals) -> tuple[float, int]:
    """End a sweep by a signal; give the seconds until driver and ranks are gone, and how many are left 2 s after it."""
    with tempfile.TemporaryDirectory() as scratch:
        process, token = start(Path(scratch), fault, ranks)
        begin_s = time.monotonic()
        process.send_signal(number)
        process.wait()
        ended_s = time.monotonic() - begin_s
        gone_s = until(lambda: not with_token(token), 2.0) if with_token(token) else 0.0
        return ended_s + gone_s, len(with_token(token))


def server_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for the fork server of a command; give its process id."""
    found: list[int] = []

    def is_there() -> bool:
        for pid in descendants(process.pid):
            with contextlib.suppress(OSError):
                if b"multiprocessing.forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return bool(found)

    until(is_there)
    return found[0]


def stop_server(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Stop the fork server at its start."""
    os.kill(server_of(process), signal.SIGSTOP)
    time.sleep(1.0)  # by then it is asked for a rank


def stop_server_at_work(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Stop the fork server once a rank is in its second update."""
    until(lambda: any(is_there(path) for path in folder.glob("results/logs/*-r0-a0/*.heartbeat")))
    os.kill(server_of(process), signal.SIGSTOP)


def stop_proof(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Stop the rank of a proof."""
    server = server_of(process)
    until(lambda: len(descendants(server)) == 1)
    os.kill(descendants(server)[0], signal.SIGSTOP)


def let_start(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Disturb nothing: the server starts."""
    server_of(process)


WAITS: dict[str, tuple[str, Callable[[subprocess.Popen[bytes], Path], None]]] = {
    "sweep, its server starts": ("sweep", let_start),
    "sweep, its server stalls at the start": ("sweep", stop_server),
    "sweep, its server stalls, a rank at work": ("sweep", stop_server_at_work),
    "sweep, in a proof": ("sweep", stop_proof),
    "check, its server stalls at the start": ("check", stop_server),
    "check, in a proof": ("check", stop_proof),
}
"""Name to the command and what it is made to wait for."""


def end_wait(command: str, disturb: Callable[[subprocess.Popen[bytes], Path], None], number: signal.Signals) -> float:
    """End a command that waits by a signal; give the seconds until it and all that it started are gone."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        more = ["--out", str(folder / "results"), "--no-plot"] if command == "sweep" else []
        arguments = [sys.executable, "-m", "bench.cli", command, str(sweep_file(folder, 1)), *more]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        disturb(process, folder)
        started = [identify(pid) for pid in descendants(process.pid)]
        begin_s = time.monotonic()
        process.send_signal(number)
        process.wait()
        until(lambda: not any(map(is_alive, started)))
        return time.monotonic() - begin_s


def main(times: int) -> None:
    """Print a line for each scene and signal."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, and inherited so
    for number, goal in ((signal.SIGINT, "R4: 10 s at most, 3 s typically"), (signal.SIGKILL, "R2: 2 s at most")):
        print(f"{number.name}, until driver and ranks are gone ({goal})")
        for name, (fault, ranks) in SCENES.items():
            ends = [end(fault, ranks, number) for _ in range(times)]
            seconds = sorted(each for each, _ in ends)
            left = sum(count for _, count in ends)
            median = seconds[len(seconds) // 2]
            print(f"  {name:32} median {median:5.2f} s   worst {seconds[-1]:5.2f} s   left {left}", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        print(f"{number.name}, until the command and all that it started are gone (R4: 10 s at most)")
        for name, (command, disturb) in WAITS.items():
            seconds = sorted(end_wait(command, disturb, number) for _ in range(times))
            print(f"  {name:42} median {seconds[len(seconds) // 2]:5.2f} s   worst {seconds[-1]:5.2f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
