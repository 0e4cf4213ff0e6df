"""What is trained: models, micro-batches, loss; `data/` has the corpora.

In a rank's process; `data/` in every process, without torch. Read `build.py` first.
"""
