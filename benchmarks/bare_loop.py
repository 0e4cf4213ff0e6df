"""A training loop as one writes it by hand: no framework, no observer, and nothing of `bench.loop` or `bench.run`.

It trains what `bench run` with packed rows trains, update by update: the same model from the same seed, the same rows
in the same windows, the loss divided by the window's tokens, gradients clipped, AdamW, a schedule, the loss of each
update kept. So both must reach the same losses, which `overhead` checks: the one way to know that the work was the
same. What it leaves out is what only a benchmark needs: signs of life, marks, counts, agreement between ranks.

It trains until its input is closed, at most MOST_UPDATES updates. Says `ready` after the first, and when it stops, as
JSON, the end of each update, on the monotonic clock and by the processor's time of the process, and its loss.

Run: python -m benchmarks.bare_loop MODEL SEQ_LEN MICRO_BATCH_SIZE ACCUMULATION_STEPS MOST_UPDATES
"""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from numpy.typing import NDArray

from bench.sweep.fields import DataSpec
from bench.sweep.presets import PRESETS
from bench.workload.build import build_model
from bench.workload.data.corpus import load_corpus

SEED = 1337
FULL_ROWS_UPDATE = 2
"""The update of a launch whose rows are the first of the corpus: the largest window there can be."""


def rows_of_updates(num_tokens: int, seq_len: int, global_batch_size: int, updates: int) -> NDArray[np.int64]:
    """Give the first token of every row that each update takes (updates, global batch), as `bench` deals them."""
    rows = np.arange((num_tokens - 1) // seq_len)
    held_out = min(64, len(rows) // 100)
    trained = np.delete(rows, (2 * np.arange(held_out) + 1) * len(rows) // (2 * held_out))
    order = trained[np.random.default_rng([SEED, 0]).permutation(len(trained))]
    dealt = order[: updates * global_batch_size].reshape(updates, global_batch_size)
    dealt[FULL_ROWS_UPDATE] = trained[:global_batch_size]
    return dealt * seq_len


class BareLoop:
    """Hold what a training script holds at its top level."""

    def __init__(
        self,
        model_name: str,
        seq_len: int,
        micro_batch_size: int,
        accumulation_steps: int,
        updates: int,
        device: str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.tokens = np.asarray(load_corpus(DataSpec()).tokens)
        self.model = build_model(PRESETS[model_name], SEED, False, "fp32", device=self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda update: 1.0)
        self.seq_len, self.shape = seq_len, (accumulation_steps, micro_batch_size)
        self.starts = rows_of_updates(len(self.tokens), seq_len, micro_batch_size * accumulation_steps, updates)
        self.losses: list[torch.Tensor] = []

    def train(self, update: int) -> None:
        """Read a window, accumulate it, make its update."""
        window = []
        for chosen in self.starts[update].reshape(self.shape):
            rows = np.stack([self.tokens[start : start + self.seq_len + 1] for start in chosen]).astype(np.int64)
            row = torch.from_numpy(rows)
            window.append(row.pin_memory() if self.device.type == "cuda" else row)
        window_tokens = sum(row[:, 1:].numel() for row in window)
        loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        self.optimizer.zero_grad(set_to_none=True)
        for waiting in window:
            row = waiting.to(self.device, non_blocking=True)
            logits = self.model(row[:, :-1]).flatten(0, 1)
            loss = F.cross_entropy(logits, row[:, 1:].flatten(), reduction="sum")
            (loss / window_tokens).backward()
            loss_sum += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.losses.append(loss_sum / window_tokens)


def main() -> None:
    """Train until told to stop."""
    torch.set_num_threads(1)
    name, *numbers = sys.argv[1:]
    *shape, most_updates = map(int, numbers)
    loop = BareLoop(name, *shape, most_updates)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    ends = []
    for update in range(most_updates):
        loop.train(update)
        ends.append((time.monotonic(), time.process_time()))
        if update == 0:
            print("ready", flush=True)
        if stop.is_set():
            break
    print(json.dumps({"ends": ends, "losses": [float(loss) for loss in loop.losses]}))


if __name__ == "__main__":
    main()
