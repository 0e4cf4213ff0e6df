"""Shorten names without making two of them one."""

from __future__ import annotations

from collections.abc import Sequence

from bench.sweep.names import cut


def cut_apart(texts: Sequence[str], length: int) -> list[str]:
    """Cut each text to so many characters; those that would then be the same are cut in the middle, or numbered."""
    ends = [cut(text, length) for text in texts]
    middles = [
        _cut_middle(text, length) if _is_taken(end, text, ends, texts) else end
        for text, end in zip(texts, ends, strict=True)
    ]
    seen: dict[str, dict[str, int]] = {}
    for text, short in zip(texts, middles, strict=True):
        same = seen.setdefault(short, {})
        same.setdefault(text, len(same) + 1)
    return [
        f"{short} ({seen[short][text]})" if len(seen[short]) > 1 else short
        for text, short in zip(texts, middles, strict=True)
    ]


def _is_taken(end: str, text: str, ends: Sequence[str], texts: Sequence[str]) -> bool:
    return any(end == other and text != whole for other, whole in zip(ends, texts, strict=True))


def _cut_middle(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    head = length // 2
    return f"{text[:head]}\u2026{text[len(text) - (length - head - 1) :]}"
