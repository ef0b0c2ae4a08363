"""Counting what would be launched on a GPU, on a CPU: kernels are there by name, and compute nothing."""

import ctypes
from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode

IDLE = {"view", "_unsafe_view", "t", "transpose", "select", "slice", "unsqueeze", "squeeze", "expand", "detach"}
IDLE |= {"alias", "unbind", "split", "split_with_sizes", "empty", "empty_like", "new_empty", "as_strided"}
IDLE |= {"_reshape_alias", "permute", "unflatten", "reshape", "lift_fresh", "numpy_T", "chunk", "flatten"}
"""Operators that launch nothing."""


class Kernels(TorchDispatchMode):
    """Counts what would be launched on a GPU: all operators but those that compute nothing, and Triton's kernels."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.found = Counter()
        from regard import batched_weight_gradients
        from regard.attention import fused
        from regard.attention.fused import additive_kernels as fused_kernels
        from regard.attention.fused import decoder_step_kernels, inference_kernels
        from regard.decoding import search_kernels, state_reordering, static_search, top_k
        from regard.layers import rnn_gate_kernels, rnn_gates

        for module in (fused_kernels, decoder_step_kernels, inference_kernels, rnn_gate_kernels, search_kernels):
            for name, kernel in list(vars(module).items()):
                if hasattr(kernel, "arg_names"):
                    monkeypatch.setattr(module, name, Launch(name, kernel.arg_names, self.found))
        for module in (batched_weight_gradients, fused, rnn_gates, static_search, top_k, state_reordering):
            monkeypatch.setattr(module, "runs_kernels", lambda device: True)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.split(".")[0]
        self.found[name] += name not in IDLE
        return function(*args, **(kwargs or {}))


class Launch:
    """Stands for a kernel, and computes nothing; where others would look up places, it leaves zeros."""

    def __init__(self, name, arguments, found):
        self.name, self.arguments, self.found = name, arguments, found

    def __getitem__(self, grid):
        return self

    def __call__(self, *args, **kwargs):
        self.found[self.name] += 1
        for name, given in zip(self.arguments, args, strict=False):
            if name in ("words", "parents", "rows"):
                ctypes.memset(given.data_ptr(), 0, given.nbytes)
