import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "core"))  # described.py
sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))  # the kernels' cases
sys.path.insert(0, str(Path(__file__).parents[1] / "formats"))  # sample files, good and bad
