"""What a rank says of its error."""

from __future__ import annotations

from pathlib import Path

from bench.launch.heartbeat import Heartbeat
from bench.rank.worker import _describe

TORCHS = (
    "CUDA out of memory. Tried to allocate 6.13 GiB. GPU 0 has a total capacity of 79.25 GiB of which 5.9 GiB is free. "
    "Including non-PyTorch memory, this process has 73.33 GiB memory in use. Of the allocated memory 71.20 GiB is "
    "allocated by PyTorch, and 1.02 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
    "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


def test_reason_is_cut_between_words_and_the_text_is_whole(tmp_path: Path) -> None:
    """A word cut in half reads as another: "this process has 73.33 G"."""
    told = _describe(RuntimeError(TORCHS), "cuda", Heartbeat(tmp_path / "beat"))
    reason = told["reason"]
    assert reason.startswith("RuntimeError: CUDA out of memory. Tried to allocate 6.13 GiB.")
    assert reason.endswith(" ...")
    kept = reason.removeprefix("RuntimeError: ").removesuffix(" ...")
    assert TORCHS.startswith(kept + " ")
    assert told["error_text"] == TORCHS
