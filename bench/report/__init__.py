"""Results as rows and tables: read, select, name, lay out; nothing is judged here.

In the user's process, without torch. Read `select.py` first.
"""
