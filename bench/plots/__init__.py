"""The figures of a result, as PNG and SVG; the only room that draws.

In the user's process, without torch. Read `draw.py` first.
"""

KINDS = {
    "memory-throughput": "(peak allocated memory [GiB or MiB, worst rank] against valid tokens per second [all ranks] "
    "with the Pareto frontier)",
    "heat-map": "(micro-batch against accumulation)",
    "scaling": "(speed per rank, exposed communication)",
    "memory-breakdown": "",
    "update-times": "[seconds]",
    "energy": "[joules]",
}
"""Kind of figure to what the help says of it, in the order they are drawn.

Each is made by `draw(rows, updates)` in the file of its name, imported when drawn: the command line reads the kinds
without matplotlib.
"""
