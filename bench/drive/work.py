"""What launches start, by dotted name: a launch knows nothing of its work, and the driver imports no torch."""

from __future__ import annotations

from bench.launch.launcher import Launcher, StartMethod

TRIAL = "bench.rank.worker:run_rank"
PROOF = "bench.rank.proof_rank:prove_rank"
PRELOADED = ("bench.rank.preload",)
"""What a fork server imports, so that a rank needs no more imports once it is forked."""


PRELOADED_FOR_HF = "bench.workload.hf.preload"
"""What it imports besides for Hugging Face models and LoRA."""


def rank_launcher(start_method: StartMethod = "forkserver", needs_hf: bool = False) -> Launcher:
    """Make a launcher whose servers have torch and the work of a rank loaded, and transformers and peft if needed."""
    return Launcher(start_method, preload=(*PRELOADED, PRELOADED_FOR_HF) if needs_hf else PRELOADED)
