"""Why a classifier says what it says: Grad-CAM for convolutional networks, attention rollout for Transformers."""

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
    r"""Show which places of a layer's features speak for a class (Selvaraju et al. 2017, equations 1 and 2).

    .. math::
        \alpha_k^c = \frac{1}{hw} \sum_{i,j} \frac{\partial y^c}{\partial A_{ij}^k} \qquad
        L^c = \mathrm{ReLU} \left( \sum_k \alpha_k^c A^k \right)

    `layer` is any module of `model` whose output is features B×C×h×w, such as `classifier.encoder.stem.stages[-1]`, and
    `model(image)` gives logits. In a network of one image a row, no row's logits depend on another's features.
    Differs from the paper: nothing.
    """
    kept: list[Tensor] = []

    def keep(module: nn.Module, given: Any, features: Tensor) -> Tensor:
        # What lies before the layer is of no interest: the graph starts here.
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
            "Grad-CAM wants a layer that runs once and yields features B×C×h×w: give a stage of a convolutional "
            "network, such as classifier.encoder.stem.stages[-1]."
        )
    (slopes,) = torch.autograd.grad(chosen, kept[0])
    importance = slopes.mean(dim=(2, 3), keepdim=True)
    return functional.relu((importance * kept[0]).sum(dim=1)).detach()


def rollout(looks: Sequence[Float[Tensor, "B T H T"]]) -> Float[Tensor, "B T T"]:
    r"""Follow attention down through layers to what went into the first (Abnar & Zuidema 2020, section 3, equation 1).

    .. math:: A = \tfrac{1}{2} W_{att} + \tfrac{1}{2} I \qquad \tilde A(l_i) = A(l_i)\, \tilde A(l_{i-1})

    `looks` are the weights of each layer, from below, of which the mean over heads is taken; half of the identity
    stands for the sum around each look. Row t of the result tells what position t of the last layer is made of.
    Differs from the paper: nothing.
    """
    rolled: Tensor | None = None
    for weights in looks:
        mean = weights.mean(dim=2)
        both = (mean + torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)) / 2
        both = both / both.sum(dim=-1, keepdim=True)
        rolled = both if rolled is None else both @ rolled
    if rolled is None:
        raise ModelError("Attention rollout wants a model whose cells look at each other: model.image.layers is 0.")
    return rolled


def rolled_out(model: Classifier, image: Float[Tensor, "B ..."]) -> Float[Tensor, "B h w"]:
    """Show what the summary of a Transformer over cells is made of, by rollout: the class token, or the mean."""
    with torch.no_grad():
        _, grid, looks = model.see(image)
    layers = [looks[f"layers.{layer}"] for layer in range(len(model.encoder.layers))]
    rolled = rollout(layers)
    if model.encoder.class_token is None:
        return rolled.mean(dim=1).view(-1, *grid)
    return rolled[:, 0, 1:].view(-1, *grid)
