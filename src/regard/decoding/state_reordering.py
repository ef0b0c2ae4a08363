"""Reorder a decoder's state along with its hypotheses, in place: for searches with CUDA graphs (`static_search.py`).

Other searches reorder KV caches by `Decoder.reorder` and `reorder_within`.
"""

import torch

from regard.devices import runs_kernels
from regard.shapes import Float, Int, Tensor

MOST = 16
"""Maximum number of hypotheses per sentence that the kernel can move."""


def reorder_rows_(state: Float[Tensor, "R *S"], parents: Int[Tensor, "B N"]) -> None:
    """Move row `parents[b, n]` of sentence b to its row n, in place."""
    if not state.numel():  # some models have an empty state here
        return
    in_pieces = state.stride(0) * len(state) == state.numel()
    if in_pieces and parents.shape[1] <= MOST and runs_kernels(state.device):
        from regard.decoding.search_kernels import reorder_rows_ as move_in_place

        move_in_place(state, parents)
    else:
        state.copy_(state.index_select(0, rows_of(parents)))


def rows_of(parents: Int[Tensor, "B N"]) -> Int[Tensor, " R"]:
    """Return the row, among those of all sentences, that each hypothesis extends."""
    count, beam = parents.shape
    return (torch.arange(0, count * beam, beam, device=parents.device)[:, None] + parents).flatten()
