"""What waits on the host for a GPU lies in page-locked memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda.on_standin import run

pytestmark = pytest.mark.cuda


def _lay_out() -> dict[str, Any]:
    import numpy as np

    from bench.workload.micro_batches import lay_out

    window = [np.arange(first, first + 5, dtype=np.int64) for first in range(0, 60, 10)]
    chunks = [window[:4], [window[4], window[5][:3]]]
    pinned, plain = lay_out(chunks, "ragged", 8, is_pinned=True), lay_out(chunks, "ragged", 8)
    tensors = [tensor for micro_batch in pinned for tensor in micro_batch]
    on_gpu = [micro_batch.to("cuda") for micro_batch in pinned]
    return {
        "pinned": [tensor.is_pinned() for tensor in tensors],
        "blocks": len({tensor.untyped_storage().data_ptr() for tensor in tensors}),
        "block bytes": tensors[0].untyped_storage().nbytes(),
        "bytes": sum(tensor.nbytes for tensor in tensors),
        "values": [tensor.tolist() for tensor in tensors],
        "plain values": [tensor.tolist() for micro_batch in plain for tensor in micro_batch],
        "values there": [tensor.cpu().tolist() for micro_batch in on_gpu for tensor in micro_batch],
    }


def test_window_for_a_gpu_lies_in_one_page_locked_block() -> None:
    """Its tensors fill it, none over another, and hold what those of a CPU hold."""
    told = run(_lay_out)
    assert told["pinned"] == [True] * 4
    assert told["blocks"] == 1
    assert told["block bytes"] == told["bytes"] == 2 * 8 * (4 * 4 + 2 * 4)
    assert told["values"] == told["plain values"] == told["values there"]
