"""Benchmarks and experiments of the project itself: not in the wheel."""
