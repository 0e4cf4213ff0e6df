"""One torch thread: the machine that runs the tests has few cores."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
