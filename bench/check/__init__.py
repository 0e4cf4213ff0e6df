"""The proof that an accumulated update is the update of one concatenated batch.

In a rank's process. Read `prove.py` first.
"""
