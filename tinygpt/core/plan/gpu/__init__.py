"""Dispatches for a GPU: buffers, pipelines, bindings and grids."""
