"""The processes of one launch: start, watch, end, and say how it ended, whatever they work on.

In the driver's process, without torch. Read `launcher.py` first.
"""
