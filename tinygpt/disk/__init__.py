"""Files on disk: read with care, written whole, locked, cached."""
