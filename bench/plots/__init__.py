"""The figures of a result, as PNG and SVG; the only room that draws.

In the user's process, without torch. Read `draw.py` first.
"""
