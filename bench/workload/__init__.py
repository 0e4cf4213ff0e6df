"""What is trained: corpora, models, micro-batches. In a rank's process. Read `build.py` first."""
