"""Imported first of all by a fork server: it ends with its driver, keeps what its ranks leave, and hears no Ctrl-C."""

from __future__ import annotations

import os
import warnings

from bench.launch.process import DRIVER_VARIABLE, adopt_orphans, die_with_parent, lead_session

die_with_parent(expected_parent=int(os.environ.get(DRIVER_VARIABLE, os.getppid())))
lead_session()
# What outlives its rank becomes a child of this server, where the driver finds it whatever it made of itself.
adopt_orphans()
# The standard library's server says of each of these that it did not expect its end, on the user's terminal.
warnings.filterwarnings("ignore", message="forkserver: waitpid returned unexpected pid")
