import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))  # a native player that watches its ops
