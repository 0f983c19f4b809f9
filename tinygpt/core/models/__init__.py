"""The model as programs over named tensors."""
