"""The page: built from what Python knows, and ready for any host."""
