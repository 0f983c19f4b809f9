"""A module per command, or group of commands. What they share is beside this folder."""
