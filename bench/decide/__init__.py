"""What results say: compare, recommend, predict, scale, hold against a reference.

In the user's process, without torch. Read `recommend.py` first.
"""
