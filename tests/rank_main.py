"""One rank of the pool: join once, then run whatever function of `tests.rank_jobs` it is told, until told to end."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
import warnings
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from tests.patience import PATIENCE_S


def main() -> None:
    rank, size, rendezvous, descriptor = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    import torch
    import torch.distributed as dist

    from bench.launch.process import die_with_parent
    from bench.rank.ranks import loopback_interface

    die_with_parent(expected_parent=int(sys.argv[5]))
    os.environ["GLOO_SOCKET_IFNAME"] = loopback_interface()
    torch.set_num_threads(1)
    limit = timedelta(seconds=PATIENCE_S)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size, timeout=limit)
    # Two groups of the first ranks each: one for gradients, one for what hosts tell each other.
    groups = {
        world: [dist.new_group(list(range(world)), timeout=limit) for _ in range(2)] for world in range(1, size + 1)
    }
    from tests import rank_jobs

    warnings.simplefilter("error")
    connection = Connection(descriptor)

    def send(*answer: Any) -> None:
        connection.send_bytes(pickle.dumps(answer))  # by value: torch would share tensors through files otherwise

    send("ok", "ready")
    while True:
        job: tuple[str, int, dict[str, Any]] | None = pickle.loads(connection.recv_bytes())
        if job is None:
            os._exit(0)
        name, world, arguments = job
        try:
            ranks = rank_jobs.Ranks(rank, world, *groups[world])
            send("ok", getattr(rank_jobs, name)(ranks, **arguments))
        except Exception as error:
            send("error", f"{type(error).__name__}: {error}\n{traceback.format_exc()}")


if __name__ == "__main__":
    main()
