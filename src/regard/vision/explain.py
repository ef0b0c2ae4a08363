"""Explain a classifier: Grad-CAM for convolutional networks, attention rollout for Transformers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from regard.errors import ModelError
from regard.shapes import Float, Int, Tensor
from regard.vision.classifier import Classifier


def grad_cam(
    model: Callable[[Tensor], Tensor], layer: nn.Module, image: Float[Tensor, "B ..."], labels: Int[Tensor, " B"]
) -> Float[Tensor, "B h w"]:
    r"""Return the evidence for a class at each position of a layer's features (Selvaraju et al. 2017, eqs. 1 and 2).

    .. math::
        \alpha_k^c = \frac{1}{hw} \sum_{i,j} \frac{\partial y^c}{\partial A_{ij}^k} \qquad
        L^c = \mathrm{ReLU} \left( \sum_k \alpha_k^c A^k \right)

    `layer` is any module of `model` whose output is features B×C×h×w, such as `classifier.encoder.stem.stages[-1]`, and
    `model(image)` returns logits. No row's logits may depend on another's features.
    Differs from the paper: nothing.
    """
    kept: list[Tensor] = []

    def keep(module: nn.Module, given: Any, features: Tensor) -> Tensor:
        # Nothing before the layer needs a gradient: the graph starts here.
        kept.append(features.detach().requires_grad_())
        return kept[-1]

    hook = layer.register_forward_hook(keep)
    try:
        with torch.enable_grad():
            logits = model(image)
            chosen = logits.gather(1, labels[:, None]).sum()
    finally:
        hook.remove()
    if len(kept) != 1 or kept[0].dim() != 4:
        raise ModelError(
            "Grad-CAM needs a layer that runs once and returns features B×C×h×w: give a stage of a convolutional "
            "network, such as classifier.encoder.stem.stages[-1]."
        )
    (slopes,) = torch.autograd.grad(chosen, kept[0])
    importance = slopes.mean(dim=(2, 3), keepdim=True)
    return functional.relu((importance * kept[0]).sum(dim=1)).detach()


def rollout(looks: Sequence[Float[Tensor, "B T H T"]]) -> Float[Tensor, "B T T"]:
    r"""Trace attention through the layers down to the input of the first (Abnar & Zuidema 2020, section 3, equation 1).

    .. math:: A = \tfrac{1}{2} W_{att} + \tfrac{1}{2} I \qquad \tilde A(l_i) = A(l_i)\, \tilde A(l_{i-1})

    `looks` are the weights of each layer, lowest first; they are averaged over heads. Half the identity stands for the
    residual connection. Row t of the result is the share of each input position in position t of the last layer.
    Differs from the paper: nothing.
    """
    rolled: Tensor | None = None
    for weights in looks:
        mean = weights.mean(dim=2)
        both = (mean + torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)) / 2
        both = both / both.sum(dim=-1, keepdim=True)
        rolled = both if rolled is None else both @ rolled
    if rolled is None:
        raise ModelError("Attention rollout needs a model with self-attention over cells, but model.image.layers is 0.")
    return rolled


def rolled_out(model: Classifier, image: Float[Tensor, "B ..."]) -> Float[Tensor, "B h w"]:
    """Return each cell's share in a Transformer's summary (class token or mean), by rollout."""
    with torch.no_grad():
        _, grid, looks = model.see(image)
    layers = [looks[f"layers.{layer}"] for layer in range(len(model.encoder.layers))]
    rolled = rollout(layers)
    if model.encoder.class_token is None:
        return rolled.mean(dim=1).view(-1, *grid)
    return rolled[:, 0, 1:].view(-1, *grid)
