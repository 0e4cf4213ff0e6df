"""The tokens to train on: corpora, their cache, sequences cut from them.

In every process, without torch. Read `corpus.py` first.
"""
