"""TinyGPT from Python."""
