"""Which device PyTorch uses, and the precision it computes with there."""

from __future__ import annotations

import torch

from tinygpt.core.errors import TinyGPTError


def pick_device(name: str) -> torch.device:
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if available[kind]))
    kind = name.split(":")[0]
    if kind not in available:
        raise TinyGPTError(f"there is no device '{name}'; choose auto, cpu, cuda or mps")
    if not available[kind]:
        raise TinyGPTError(f"PyTorch {torch.__version__} finds no {kind} device here; choose --device cpu or auto")
    return torch.device(name)


def pick_precision(name: str, device: torch.device) -> str:
    cuda = device.type == "cuda"
    if name == "auto":
        return "bf16" if cuda and torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if name not in ("float32", "tf32", "bf16"):
        raise TinyGPTError(f"there is no precision '{name}'; choose auto, float32, tf32 or bf16")
    if name == "tf32" and not cuda:
        raise TinyGPTError(f"precision tf32 needs a CUDA device, not {device.type}; choose float32")
    if name == "bf16" and device.type == "mps":
        raise TinyGPTError("precision bf16 is for CUDA and the CPU; choose float32 on mps")
    return name
