"""Results read from parquet, as rows and tables: select, name, lay out; nothing is judged and nothing is drawn here.

In the user's process, without torch. Read `select.py` first.
"""
