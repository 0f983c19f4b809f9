"""A proof of a run: what a capsule states, how it is checked, and how a replay is held against it (docs/capsule.md)."""
