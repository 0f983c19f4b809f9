"""Core in a browser tab: runs and files whose bytes JavaScript holds. protocol.pyi describes what the two say."""
