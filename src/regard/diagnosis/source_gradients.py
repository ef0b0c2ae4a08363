r"""How each target token's log-probability depends on each source token: attribution, and gradients by distance.

Attribution is gradient × input (Shrikumar et al. 2016): the gradient of :math:`\log p(y_t)` with respect to the
embedding of source token s, multiplied by that embedding and summed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention import Attended
from regard.data.batching import pad_sources
from regard.data.special_tokens import BOS
from regard.decoding.translator import Translator
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Float, Tensor

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Gradients:
    """Of one pair, target × source tokens."""

    attribution: Floats
    """Gradient × input, signed."""
    norms: Floats
    """Norms of the gradients."""
    norms_without_attention: Floats
    """The same with nothing flowing back through the contexts that attention computes."""


def gradients(translator: Translator, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> tuple[Gradients, ...]:
    """Return the gradients of each target token with teacher forcing, by one backward pass for each position."""
    model = translator.model
    assert isinstance(model, Seq2Seq)
    sources, targets = zip(*pairs, strict=True)
    whole = _backward(model, sources, targets, cut=False)
    cut = _backward(model, sources, targets, cut=True)
    return tuple(
        Gradients(
            whole["attribution"][row, : len(target), : len(source)],
            whole["norms"][row, : len(target), : len(source)],
            cut["norms"][row, : len(target), : len(source)],
        )
        for row, (source, target) in enumerate(pairs)
    )


def _backward(
    model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], cut: bool
) -> Mapping[str, Floats]:
    """Return attribution and norms, B×T×S; with `cut`, no gradient passes through the attention to the source."""
    device = next(model.parameters()).device
    source, source_mask = (part.to(device) for part in pad_sources([list(one) for one in sources]))
    tokens, real = (part.to(device) for part in pad_sources([list(one) for one in targets]))
    before = torch.cat([torch.full_like(tokens[:, :1], BOS), tokens[:, :-1]], dim=1)
    with _differentiable(model, cut) as leaves:
        taught = model.decoder.teach(before, model.encode(source, source_mask), look=False)
        log_probs = model.decoder.logits(taught).float().log_softmax(dim=-1)
        own = log_probs.gather(2, tokens[..., None])[..., 0] * real
        embedded = leaves[0]
        found: list[Tensor] = []
        for step in range(tokens.shape[1]):
            # A Transformer's decoder knows of the source by attention alone: cut, nothing depends on it.
            slope = None
            if own.requires_grad:
                (slope,) = torch.autograd.grad(own[:, step].sum(), embedded, retain_graph=True, allow_unused=True)
            found.append(torch.zeros_like(embedded) if slope is None else slope)
    slopes = torch.stack(found, dim=1)
    attribution = (slopes * embedded.detach()[:, None]).sum(dim=-1)
    return {"attribution": attribution.cpu().numpy(), "norms": slopes.norm(dim=-1).cpu().numpy()}


@contextmanager
def _differentiable(model: Seq2Seq, cut: bool) -> Iterator[list[Float[Tensor, "B S E"]]]:
    """Let gradients end at the source embeddings, which are appended to the list given; weights need none."""
    leaves: list[Tensor] = []
    trained = model.training
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def leaf(module: Any, given: Any, embedded: Tensor) -> Tensor:
        leaves.append(embedded.detach().requires_grad_())
        return leaves[-1]

    def without_context(module: Any, given: Any, attended: Attended) -> Attended:
        return attended._replace(context=attended.context.detach())

    with ExitStack() as stack:
        assert model.source_embedding is not None
        hooks = [model.source_embedding.register_forward_hook(leaf)]
        if cut:
            hooks += [module.register_forward_hook(without_context) for module in model.decoder.source_attentions]
        for hook in hooks:
            stack.callback(hook.remove)
        for parameter in wanted:
            stack.callback(parameter.requires_grad_, True)
            parameter.requires_grad_(False)
        stack.callback(model.train, trained)
        model.eval()
        # cuDNN has no backward pass through a recurrent layer that is not in training mode.
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        stack.enter_context(torch.enable_grad())
        yield leaves
