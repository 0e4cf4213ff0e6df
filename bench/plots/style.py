"""Fix how figures look: colours, markers, fonts; nothing of the user's matplotlib settings leaks in."""

from __future__ import annotations

from typing import Any

# Okabe and Ito, "Color Universal Design" (2008): told apart with any colour vision; markers differ as well.
MODE_COLORS = {"fp32": "#0072B2", "tf32": "#E69F00", "bf16": "#009E73", "fp16": "#CC79A7"}
MODE_MARKERS = {"fp32": "o", "tf32": "s", "bf16": "^", "fp16": "D"}
OTHER_COLOR, OTHER_MARKER = "#56B4E9", "v"
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
"""Colours of lines that are not AMP modes."""

WALL = "#D55E00"
INK, QUIET, FAINT = "#1f2328", "#59636e", "#d1d9e0"

RC: Any = {  # matplotlib types the keys as 400 literals
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a name is a dollar
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#eaeef2",
    "grid.linewidth": 0.8,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "bench",  # the same figure gives the same bytes
    "svg.fonttype": "path",  # looks the same where the font is missing
}
