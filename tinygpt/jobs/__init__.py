"""Runs in folders: what a run is told, the texts it learns from, and how it is begun, gone on with and ended.

Both the Python interface (tinygpt.api.model) and the command line stand on it; nothing here prints.
"""
