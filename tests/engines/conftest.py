import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))  # a native player that watches its ops
torch.set_num_threads(1)  # its models are tiny here, and threads that wait for each other would be all that they do
