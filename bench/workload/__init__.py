"""What is trained: corpus, sequences, micro-batches, models, loss."""
