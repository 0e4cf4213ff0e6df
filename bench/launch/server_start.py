"""Imported first of all by a fork server: it ends with its driver, and Ctrl-C in the terminal does not reach it."""

from __future__ import annotations

import os

from bench.launch.process import die_with_parent, lead_session

die_with_parent(expected_parent=int(os.environ.get("BENCH_DRIVER_PID", os.getppid())))
lead_session()
