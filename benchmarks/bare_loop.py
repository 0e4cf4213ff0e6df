"""A training loop as one writes it by hand: no framework, no observer, and nothing of `bench.loop`.

It does the work of `bench run` with packed rows: the same model from the same seed, windows of the same size cut from
the same tokens, the loss divided by the window's tokens, gradients clipped, AdamW. Prints tokens/s as JSON.

Run: python -m benchmarks.bare_loop MODEL SEQ_LEN MICRO_BATCH_SIZE ACCUMULATION_STEPS WARMUP_UPDATES UPDATES THREADS
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from bench.sweep.fields import DataSpec
from bench.sweep.presets import PRESETS
from bench.workload.build import build_model
from bench.workload.corpus import load_corpus


def train(
    model_name: str, seq_len: int, micro_batch_size: int, accumulation_steps: int, warmup_updates: int, updates: int
) -> float:
    """Train and give the speed of the last `updates` updates [tokens/s]."""
    tokens = load_corpus(DataSpec()).tokens
    model = build_model(PRESETS[model_name], 1337, False, "fp32", device=torch.device("cpu"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    generator = np.random.default_rng(1337)
    starts = generator.permutation((len(tokens) - 1) // seq_len) * seq_len
    position = 0
    tokens_per_update = seq_len * micro_batch_size * accumulation_steps
    start_s = 0.0
    for update in range(warmup_updates + updates):
        if update == warmup_updates:
            start_s = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        for _ in range(accumulation_steps):
            chosen = starts[position : position + micro_batch_size]
            position += micro_batch_size
            rows = torch.from_numpy(
                np.stack([tokens[start : start + seq_len + 1] for start in chosen]).astype(np.int64)
            )
            logits = model(rows[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum")
            (loss / tokens_per_update).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return updates * tokens_per_update / (time.perf_counter() - start_s)


if __name__ == "__main__":
    name, *numbers, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    print(json.dumps({"tokens_per_s": train(name, *map(int, numbers))}))
