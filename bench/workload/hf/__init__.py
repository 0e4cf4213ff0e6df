"""Models from Hugging Face configurations, and LoRA adapters on any model; transformers and peft load when used.

In a rank's process. Read `model.py` first.
"""
