"""Generation: from logits to texts."""
