"""Check on a real GPU what the tests can only check on a CPU: one run of less than eight minutes on one GPU.

    python -m benchmarks.gpu_check [--device cpu] [--out FOLDER]

Prints each check as PASS, FAIL or SKIP with the figure behind it, writes gpu_check.json and every sweep it ran into
the folder, and exits with 1 if a check failed, 5 if there is no GPU. `--device cpu` runs what a CPU can, and what needs
a real GPU's speed or values skips on a stand-in.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.errors import BenchError
from bench.machine.environment import machine_facts
from bench.machine.report import report_machine
from bench.standin import is_standin
from benchmarks.gpu_check.checks import CHECKS, NEED_SPEED
from benchmarks.gpu_check.lab import Lab
from benchmarks.gpu_check.outcome import Finding, Line, table, write_report

_BUDGET_S = 480.0
"""The whole run ends within eight minutes."""
_ALLOWANCE_S = 45.0
_ALLOWANCES_S = {"amp_modes_run_as_asked": 150.0, "reference_sweep": 120.0, "watching_costs_nothing": 75.0}
"""Seconds that a check may take, the rest of them `_ALLOWANCE_S`; one that does not fit what is left is skipped."""


def main() -> int:
    """Run every check; give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="device to check  [default: cuda]")
    parser.add_argument("--out", type=Path, help="folder for results  [default: results/gpu-check-<utc time>]")
    options = parser.parse_args()
    try:
        facts = machine_facts({options.device})
    except BenchError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    folder = options.out or Path("results") / f"gpu-check-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    lab, machine = Lab(folder, facts), report_machine(options.device)
    begin = time.monotonic()
    lines: list[Line] = []
    for check in CHECKS:
        start = time.monotonic()
        gone_s, allowance_s = start - begin, _ALLOWANCES_S.get(check.__name__, _ALLOWANCE_S)
        if check in NEED_SPEED and options.device == "cuda" and is_standin():
            finding = Finding("SKIP", "stand-in: no speed, no values")
        elif gone_s + allowance_s > _BUDGET_S:
            why = f"{gone_s:.0f} s of {_BUDGET_S:.0f} s are gone, and this may take {allowance_s:.0f} s"
            finding = Finding("SKIP", why)
        else:
            try:
                finding = check(lab)
            except Exception as error:
                finding = Finding("FAIL", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        lines.append(Line(check.__name__.replace("_", " "), finding.status, finding.figure, time.monotonic() - start))
        line = lines[-1]
        print(f"{line.status}  {line.seconds:.0f} s  {line.check}: {line.figure}", file=sys.stderr, flush=True)
        write_report(folder / "gpu_check.json", lines, machine)
    print(table(lines))
    print(f"{time.monotonic() - begin:.0f} s of {_BUDGET_S:.0f} s")
    print(f"written to {folder / 'gpu_check.json'}")
    return 1 if any(line.status == "FAIL" for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
