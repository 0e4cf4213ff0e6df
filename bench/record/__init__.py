"""What is kept: columns, rows, journal, parquet, the files of a folder.

In every process, without torch. Read `store.py` first.
"""
