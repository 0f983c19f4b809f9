"""The training loop, and what it tells its surroundings."""
