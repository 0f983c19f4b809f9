"""The learning trail in docs/learn: how its chapters are read, checked, and made into notebooks."""
