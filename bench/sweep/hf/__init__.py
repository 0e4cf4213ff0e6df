"""Hugging Face configurations as sweep files name them: what is known before anything runs.

In every process, without torch and transformers. Read `configuration.py` first.
"""
