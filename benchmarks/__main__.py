"""Measure the tool against its promises: every measurement in turn, each in a process of its own, one table.

    python -m benchmarks [--quick] [--only NAME ...] [--json FILE]

Run it on a quiet machine; about 40 minutes on two cores, five with --quick. Exit code 1 when a goal is not met or a
measurement failed; *not shown* is a figure whose interval reaches over its goal. Each measurement also runs alone, with
options of its own: `python -m benchmarks.overhead --help`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.harness import Measurement, finish, parser, read_figures, say

LIMITS_S = {
    "exactness": 60,
    "search_probes": 120,
    "starts": 300,
    "decide": 120,
    "write_cost": 60,
    "launch_cost": 360,
    "sweep_share": 300,
    "overhead": 900,
    "launch_spread": 900,
    "two_point_law": 600,
    "statistics_goals": 600,
}
"""Measurement to the most it may take [s]; with --quick a third of it, but 120 s at least. In their order."""


def main() -> None:
    """Run the measurements and print one table."""
    options_of = parser("benchmarks", __doc__)
    options_of.add_argument("--only", nargs="+", choices=LIMITS_S, metavar="NAME", help="run these alone")
    options = options_of.parse_args()
    found = []
    for name, limit_s in LIMITS_S.items():
        if options.only is None or name in options.only:
            found.append(measure(name, options.quick, max(120.0, limit_s / 3) if options.quick else limit_s))
    finish(found, options.json)


def measure(name: str, quick: bool, limit_s: float) -> Measurement:
    """Run one measurement in a fresh process, for so long at most, and read its figures."""
    say(name)
    load, start = os.getloadavg()[0], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(file), *(["--quick"] if quick else [])]
        code = _run(command, limit_s)
        figures, is_complete = read_figures(file)
    if not is_complete:
        why = f"stopped after {limit_s:.0f} s" if code is None else f"ended with {code}; its last words are above"
        figures.append(Figure("", "what is left of this measurement", None, note=why, has_failed=True))
    return Measurement(name, load, time.monotonic() - start, tuple(figures))


def _run(command: list[str], limit_s: float) -> int | None:
    """Run a command in a process group of its own; None when it took too long, and was ended with its children."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(timeout=limit_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            return None
        raise


if __name__ == "__main__":
    main()
