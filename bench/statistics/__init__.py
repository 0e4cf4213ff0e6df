"""Intervals, steadiness, when to stop, what a difference is worth: numbers in, numbers out.

In every process, without torch. Read `intervals.py` first.
"""
