"""What the driver asks of a proof and gets back: the request and the lines of the checklist.

In both processes, without torch. Read `lines.py` first.
"""
