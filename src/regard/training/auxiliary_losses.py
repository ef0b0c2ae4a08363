"""Losses beside the cross-entropy: coverage, guidance, the reward of hard attention, and R-Drop's.

Each is a sum over real target tokens, as the cross-entropy is: what a step makes small is the sum of all of them over
its number of tokens, and no weight has to be tuned to lengths or to batch sizes.
"""

from typing import NamedTuple

import torch
from torch.nn import functional

from regard.errors import ConfigError
from regard.shapes import Bool, Float, Int, Tensor

SMALLEST = 1e-9
"""Weights below are taken for this much, so that a weight of exactly zero (sparsemax, a window) costs no infinity."""


def coverage_loss(overlap: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    r"""Sum how much of each look went where earlier looks had gone (See et al. 2017, equation 12).

    .. math:: \sum_t \sum_j \min(a_j^t, c_j^t) \qquad c^t = \sum_{t' < t} a^{t'}

    Differs from the paper: with several heads it is summed over them.
    """
    return overlap.float().masked_fill(~mask, 0.0).sum()


def doubly_stochastic_loss(
    weights: Float[Tensor, "B T L H S"], mask: Bool[Tensor, "B T"], cells: Bool[Tensor, "B S"]
) -> Float[Tensor, ""]:
    r"""Sum how far each cell of an image is from being looked at once in all (Xu et al. 2015, equation 14).

    .. math:: \sum_i \left( 1 - \sum_t \alpha_{ti} \right)^2

    `mask` tells the real target tokens, and `cells` the real cells.
    Differs from the paper: with several layers or heads it is their mean that is meant.
    """
    looks = weights.float().mean(dim=(2, 3)).masked_fill(~mask[..., None], 0.0).sum(dim=1)
    return (1 - looks).square().masked_fill(~cells, 0.0).sum()


def guided_loss(
    weights: Float[Tensor, "B T L H S"], links: Int[Tensor, "N 3"], layer: int, head: int
) -> Float[Tensor, ""]:
    r"""Sum the cross-entropy between gold alignment and attention, over the target tokens that are aligned.

    .. math:: -\sum_{t\,:\,A_t \ne \emptyset} \sum_{j \in A_t} \frac{1}{|A_t|} \log a_{tj}

    The cross-entropy of Mi et al. 2016 and Chen et al. 2016, and, for one head of a Transformer, of Garg et al. 2019
    (section 4.2). `links` are (sentence, target token, source token), and of none where the sentence is -1; a `head` of
    -1 is the mean of all heads. Tokens without a link are left to find their own way. Differs from the papers: links
    are taken as they are, not smoothed (Mi et al.), and a head is held while it sees the words before alone, not in a
    pass of its own that sees the whole target (Garg et al.); `training.guided_shift` lets it see the word itself.
    """
    if not links.shape[0]:
        return weights.new_zeros(()).float()
    chosen = weights[:, :, layer]
    looks = (chosen.mean(dim=2) if head == -1 else chosen[:, :, head]).float()
    b, t, s = links.clamp_min(0).unbind(dim=1)
    real = (links[:, 0] >= 0).to(looks.dtype)
    counts = looks.new_zeros(looks.shape[:2]).index_put((b, t), real, accumulate=True)
    return -(real * looks[b, t, s].clamp_min(SMALLEST).log() / counts[b, t].clamp_min(1.0)).sum()


def one_step_later(links: Int[Tensor, "N 3"], written: Bool[Tensor, "B T"]) -> Int[Tensor, "N 3"]:
    """Link the looks one step after: there a decoder has read the word that is aligned, where before it has to guess.

    What would be linked after the last step of a sentence is not linked; `written` says which steps it has.
    """
    b, t, s = links.unbind(dim=1)
    there = functional.pad(written, (0, 1))[b.clamp_min(0), t + 1] & (b >= 0)
    return torch.stack((b, t + 1, s), dim=1).masked_fill_(~there[:, None], -1)


def check_looks(weights: Float[Tensor, "B T L H S"], layer: int, head: int) -> None:
    """Raise a ConfigError where a model's looks cannot be guided, or not these."""
    layers, heads = weights.shape[2:4]
    if not layers:
        raise ConfigError("training.guided needs looks at the source, and this model has none: set it to 0.")
    for name, value, count in (("guided_layer", layer, layers), ("guided_head", head, heads)):
        if not -1 <= value < count:
            raise ConfigError(
                f"training.{name} is {value}; for this model it must be at least -1 and at most {count - 1}."
            )


def r_drop_divergence(one: Float[Tensor, "N W"], other: Float[Tensor, "N W"]) -> Float[Tensor, ""]:
    r"""Sum how far apart two passes over the same tokens are that differ in dropout alone (Liang et al. 2021, R-Drop).

    .. math::
        \tfrac{1}{2} \left( D_{KL}(p \| q) + D_{KL}(q \| p) \right)
        = \tfrac{1}{2} \sum_k (p_k - q_k) (\log p_k - \log q_k)

    Equation 2 of the paper. What is made small is half of its equation 4, so that the loss has the size it has with one
    pass. This is the plain version that tests compare with: in training `fused_loss.py` computes it with the loss.
    """
    p, q = one.float().log_softmax(dim=-1), other.float().log_softmax(dim=-1)
    return ((p.exp() - q.exp()) * (p - q)).sum() / 2


class Reward(NamedTuple):
    """What hard attention learns from."""

    total: Float[Tensor, ""]
    """What is made small."""
    reached: Float[Tensor, " B"]
    """The reward of each sentence: what the baseline follows."""
    entropy: Float[Tensor, ""]
    """Sum of the entropies, detached."""


def reinforce(
    log_prob: Float[Tensor, "B T"],
    entropy: Float[Tensor, "B T"] | None,
    right: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    baseline: Float[Tensor, ""],
    weights: tuple[float, float],
) -> Reward:
    r"""Reward hard attention for looks that made the right words probable (Xu et al. 2015, section 4.1, at its end).

    .. math::
        -\lambda_r\, (\log p(y \mid \tilde s, x) - b)\, \log p(\tilde s \mid x) - \lambda_e\, H[\tilde s]

    `right` are the log-probabilities of the right words; no gradient passes through the reward. `weights` are the two
    lambdas.
    Differs from the paper: the reward of a sentence is the mean over its words, not their sum, so that it weighs the
    same whatever the sentence's length; a lambda of the paper's is ours over that length.
    """
    real = mask.float()
    reached = (right.detach().float() * real).sum(dim=1) / real.sum(dim=1).clamp_min(1.0)
    advantage = reached - baseline.detach()
    total = -weights[0] * (advantage[:, None] * log_prob.float()).masked_fill(~mask, 0.0).sum()
    uncertain = total.new_zeros(()) if entropy is None else entropy.float().masked_fill(~mask, 0.0).sum()
    return Reward(total - weights[1] * uncertain, reached, uncertain.detach())
