"""How the law of the loss and the coach's bands are made."""
