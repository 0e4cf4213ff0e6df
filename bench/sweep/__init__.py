"""What is asked: sweep file to trials, with every mistake named.

In the user's process, and in a rank's for its one trial; without torch. Read `fields.py` first.
"""
