"""The PyTorch reference: read `model.py`, then `engine.py`. Importing this package imports no torch."""
