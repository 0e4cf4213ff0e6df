"""What a journal says has happened: the last record of every launch, and what is left open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bench.record.store import PartInfo

Key = tuple[str, int]
"""Trial id and round."""

NO_TRY = frozenset({"interrupted"})
"""Outcomes that say nothing about the trial, and so do not count as a try of it."""


class History:
    """Read the records of a journal in order; records appended later are added as they come."""

    def __init__(self, records: Iterable[Mapping[str, Any]] = ()) -> None:
        self._launches: dict[Key, list[Mapping[str, Any]]] = {}
        self._running: dict[tuple[str, int, int], Mapping[str, Any]] = {}
        self._machine: Mapping[str, Any] | None = None
        self._highest_attempt: dict[Key, int] = {}
        self._lost: set[Key] = set()
        """Launches whose latest part was damaged, until they ran again."""
        self.header: Mapping[str, Any] | None = None
        self.planned: set[str] = set()
        """Trials that were ever planned in this folder."""
        for record in records:
            self.add(record)

    def add(self, record: Mapping[str, Any]) -> None:
        """Take one more record into account. Kinds that a newer version wrote are passed over."""
        if "attempt" in record:
            key = _key_of(record)
            self._highest_attempt[key] = max(record["attempt"], self._highest_attempt.get(key, 0))
        match record.get("kind"):
            case "header":
                self.header = record
            case "planned":
                self.planned.update(record["trial_ids"])
            case "machine":
                self._machine = record["conditions"]
            case "running":
                self._running[_attempt_of(record)] = record
            case "launch":
                self._running.pop(_attempt_of(record), None)
                self._launches.setdefault(_key_of(record), []).append({**record, "machine": self._machine})
                self._lost.discard(_key_of(record))
            case "damaged":
                kept = self._launches.get(_key_of(record), [])
                # What a retry had replaced must not come back as the result.
                if kept and kept[-1]["part"] == record["part"]:
                    self._lost.add(_key_of(record))
                self._launches[_key_of(record)] = [launch for launch in kept if launch["part"] != record["part"]]

    @property
    def machine(self) -> Mapping[str, Any] | None:
        """What the memory of the machine was when the latest launches ran."""
        return self._machine

    def last(self, key: Key) -> Mapping[str, Any] | None:
        """Give the last launch of a trial in a round; None when there was none, or its part was damaged."""
        launches = self._launches.get(key)
        return launches[-1] if launches and key not in self._lost else None

    def tries(self, key: Key) -> int:
        """Count the launches that said something about a trial in a round."""
        return sum(launch["outcome"] not in NO_TRY for launch in self._launches.get(key, []))

    def next_attempt(self, key: Key) -> int:
        """Number the next launch: above every number that was ever given."""
        return self._highest_attempt.get(key, -1) + 1

    def launches(self) -> Iterator[Mapping[str, Any]]:
        """Go through every launch whose part is good, all attempts."""
        for launches in self._launches.values():
            yield from launches

    def parts(self) -> list[PartInfo]:
        """Name every good part."""
        return [PartInfo.from_journal(launch) for launch in self.launches()]

    def abandoned(self) -> list[Mapping[str, Any]]:
        """Give the launches that were begun and never ended: the driver died meanwhile."""
        return list(self._running.values())

    def count_outcomes(self) -> dict[str, int]:
        """Count the last outcome of every launch in the folder."""
        counts: dict[str, int] = {}
        for key, launches in self._launches.items():
            if launches and key not in self._lost:
                outcome = launches[-1]["outcome"]
                counts[outcome] = counts.get(outcome, 0) + 1
        return counts


def _key_of(record: Mapping[str, Any]) -> Key:
    return record["trial_id"], record["round"]


def _attempt_of(record: Mapping[str, Any]) -> tuple[str, int, int]:
    return record["trial_id"], record["round"], record["attempt"]
