"""What is done with a model: the loops, in blocks, over any engine."""
