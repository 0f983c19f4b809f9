"""So many minutes: which run makes the most of them, what loss it will reach, and that it ends on time."""
