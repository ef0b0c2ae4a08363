"""Where Triton kernels run."""

import importlib.util
import os
from functools import cache

import torch


@cache
def runs_kernels(device: torch.device) -> bool:
    """Whether Triton kernels run there: on NVIDIA GPUs, and in Triton's interpreter, which the tests use."""
    if importlib.util.find_spec("triton") is None:
        return False
    if device.type != "cuda":
        return device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)
