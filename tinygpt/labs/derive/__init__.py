"""Labs in which the reader derives an op: what they are, how an answer is checked, and a model that trains with it."""
