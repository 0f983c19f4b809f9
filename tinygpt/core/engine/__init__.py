"""What an engine is, and core's own: programs on a player."""
