"""What to start from: the shipped sweep files, and new ones for a model, data and a machine.

In the user's process, without torch. Read `sweep_file.py` first.
"""
