"""Imported by a fork server that never gets further: its boot hangs."""

from __future__ import annotations

import time

time.sleep(36_000)
