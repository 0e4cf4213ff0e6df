"""Make, style and save figures: the same rows give the same bytes, whatever the user's settings."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.errors import BenchError
from bench.plots.captions import facts, lines_of, write_foot, write_head
from bench.plots.style import RC
from bench.record.atomic import write_atomically
from bench.report.named_results import note_on_results
from bench.report.points import Row
from bench.report.problem import note_on_problems

SIZE = (8.6, 6.2)
"""Width and height [inches]."""
DPI = 160
Rect = tuple[float, float, float, float]
"""left, bottom, width, height [shares of the figure]"""


class NothingToDraw(BenchError):
    """Say why the rows have nothing that a figure could show."""


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """Draw with our settings only."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # nothing of the user's own settings in our figure
        mpl.rcParams.update(RC)
        # A name in a script the font lacks is drawn as boxes; the table shows it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def framed(title: str, second: str, rows: Sequence[Row], notes: Sequence[str]) -> tuple[Figure, Rect]:
    """Make a figure with title, second line, facts and notes; return it and the room that is left for axes.

    The last notes say so where the rows hold several training problems, or results of different times.
    """
    notes = [*notes, *filter(None, (note_on_problems(rows), note_on_results(rows)))]
    figure = Figure(figsize=SIZE, dpi=DPI)
    FigureCanvasAgg(figure)
    top = write_head(figure, lines_of([title], 78), lines_of([second, facts(rows)], 128))
    bottom = write_foot(figure, lines_of(notes, 130))
    return figure, (0.095, bottom, 0.88, top - bottom)


def save(figure: Figure, out_dir: Path, name: str) -> list[Path]:
    """Save a figure as PNG and SVG; return the two paths.

    Raises:
        StorageError: The folder cannot be written.
    """
    paths = []
    for kind in ("png", "svg"):
        stream = io.BytesIO()
        # No date and no version in the file: the same rows give the same bytes.
        figure.savefig(stream, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else {"Software": None})
        path = Path(out_dir) / f"{name}.{kind}"
        write_atomically(path, stream.getvalue())
        paths.append(path)
    return paths
