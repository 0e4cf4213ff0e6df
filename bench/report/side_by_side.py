"""Tell whether the two launches of a round were really made side by side."""

from __future__ import annotations

from bench.report.configurations import Block, Configuration


def rounds_apart(one: Configuration, other: Configuration) -> int:
    """Count the rounds in common between whose two launches the same two were launched in another round.

    A sweep makes a round in one pass, so this happens only where a configuration was added to rounds that were already
    done, or was run again later. The machine may have changed in between, which pairing then no longer takes off.
    """
    times = sorted(
        (str(launch["started_utc"]), tuple(launch.get(name) for name in ("source", "sweep", "hostname", "round")))
        for configuration in (one, other)
        for launch in configuration.launches
        if launch["outcome"] == "ok" and launch.get("started_utc") is not None
    )
    spans: dict[Block, list[str]] = {}
    for started_utc, block in times:
        spans.setdefault(block, []).append(started_utc)
    return sum(
        any(spans[block][0] < started_utc < spans[block][-1] for started_utc, its in times if its != block)
        for block in spans
        if block in one.speeds and block in other.speeds
    )
