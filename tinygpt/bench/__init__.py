"""Measuring engines against one another: how fast (steps), how alike (parity), how large (memory)."""
