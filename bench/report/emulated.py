"""Which 16-bit types a processor had no units for: their speed there says nothing of other machines."""

from __future__ import annotations

from collections.abc import Iterable

from bench.report.launch_rows import Row

_DTYPES = ("bf16", "fp16")


def emulated_dtypes(rows: Iterable[Row]) -> list[str]:
    """List the 16-bit types that launches on a CPU computed in although it has no units for them, sorted.

    Rows that do not tell what the processor has (older ones, unknown systems) are left out.
    """
    found = set()
    for row in rows:
        has = row.get("cpu_16bit_dtypes") if row.get("device") == "cpu" and row["outcome"] == "ok" else None
        if has is not None:
            found |= {dtype for dtype in (row.get("amp_mode"), row.get("param_dtype")) if dtype in _DTYPES} - {*has}
    return sorted(found)


def emulation_words(rows: Iterable[Row]) -> str | None:
    """Say it in a clause; null where nothing is emulated."""
    dtypes = emulated_dtypes(rows)
    if not dtypes:
        return None
    are, them = ("is", "it") if len(dtypes) == 1 else ("are", "them")
    what = f"{' and '.join(dtypes)} {are} emulated here, as this processor has no units for {them}"
    return f"{what}: the speed says nothing of a machine that has"
