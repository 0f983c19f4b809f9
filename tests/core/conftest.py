import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # toy.py, shared with the MicroPython test
sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))  # wgsl_text.py
