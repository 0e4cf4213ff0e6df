"""Columns that say which launch a row is, and how it ended."""

from __future__ import annotations

from bench.record.column_types import Column, Kind, Rule


def _identity(name: str, kind: Kind, sentence: str, *, unit: str | None = None, rule: Rule = "launch") -> Column:
    return Column(name, kind, unit, "identity", rule, sentence)


IDENTITY: tuple[Column, ...] = (
    _identity(
        "schema_version", "int64", "Version of this table's columns; readers refuse a newer version than their own."
    ),
    _identity(
        "measurement_version", "int64", "Version of the measuring method, raised whenever a change to it moves numbers."
    ),
    _identity("sweep", "string", "Name of the sweep, as in its file."),
    _identity("trial_id", "string", "First 12 hexadecimal digits of the SHA-256 of the resolved configuration."),
    _identity(
        "round",
        "int64",
        "Round (pass over all trials) that this launch belongs to, from 0; null for skipped and pruned trials.",
    ),
    _identity(
        "attempt", "int64", "Number of the attempt at this trial and round, from 0; the table keeps the last one."
    ),
    _identity("order", "int64", "Position of this launch in the order of its round, from 0."),
    _identity(
        "outcome",
        "string",
        "How the launch ended (ok, oom, oom_host, failed, timeout, hang, killed, invalid or interrupted), or why "
        "there was none (skipped or pruned).",
    ),
    _identity("reason", "string", "Why the outcome is not ok, in one sentence; null when it is ok."),
    _identity("phase", "string", "What the first failing rank was doing (build, forward, backward, update, ...)."),
    _identity("failing_rank", "int64", "Rank that failed first; null when no rank failed."),
    _identity("error_class", "string", "Class of the first real exception."),
    _identity("error_text", "string", "Text of the first real exception."),
    _identity(
        "flags",
        "list<string>",
        "Named doubts about this row, such as alloc_retries; an empty list means that no check raised one. bench show "
        "says below its table what those that occur mean.",
        rule="union",
    ),
    _identity(
        "exit_code", "int64", "Exit code of the failing rank's process, or of rank 0; null when a signal ended it."
    ),
    _identity(
        "signal", "int64", "Number of the signal that ended the failing rank's process; null when no signal did."
    ),
    _identity("started_utc", "string", "Wall-clock time at which the launch was requested, ISO 8601 in UTC."),
)
"""Identity: which launch this row is, and how it ended."""
