"""What to expect of a run: budgets, the law of the loss, the coach."""
