"""How the bundled models are made."""
