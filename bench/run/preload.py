"""Imported once by the fork server, so that every rank starts with torch loaded.

Nothing here may run a tensor operation or touch CUDA: a forked CUDA context does not work, and started threads do not
survive a fork.
"""

from __future__ import annotations

import os

import torch._dynamo  # noqa: F401 - the optimizers import it on first use, which takes a second

import bench.run.worker  # noqa: F401 - what a rank needs is loaded before it is forked
from bench.run.process import die_with_parent

SERVER_PID = os.getpid()

die_with_parent()
