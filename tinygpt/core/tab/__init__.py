"""Core in a browser tab: runs and files whose bytes JavaScript holds."""
