"""The report: one HTML page of a result, which needs no network.

In the user's process, without torch. Read `build.py` first.
"""
