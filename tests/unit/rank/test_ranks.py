"""How ranks meet."""

from __future__ import annotations

import pytest

from bench.rank import ranks
from bench.rank.ranks import Ranks, loopback_interface


@pytest.mark.parametrize(("names", "right"), [(["eth0", "lo"], "lo"), (["en0", "lo0"], "lo0"), (["eth0"], "lo")])
def test_ranks_of_one_machine_meet_on_its_loopback(
    monkeypatch: pytest.MonkeyPatch, names: list[str], right: str
) -> None:
    """A host need not be able to resolve its own name.

    https://github.com/rwth-i6/i6_core/issues/459
    """
    monkeypatch.setattr(ranks.socket, "if_nameindex", lambda: list(enumerate(names)))
    assert loopback_interface() == right


def test_one_rank_agrees_with_itself() -> None:
    """Sums, maxima and checksums need nobody else."""
    alone = Ranks(0, 1, None)
    assert alone.sum([1.0, 2.0]) == [1.0, 2.0]
    assert alone.max([3.0]) == [3.0]
    assert alone.from_rank0(5) == 5
    assert alone.agreement().world_size == 1
    alone.barrier()
