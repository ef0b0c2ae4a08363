"""Hard attention by sampling."""

import torch
from torch import nn

from regard.attention.base import Focus, Focused, Sizes, focuses
from regard.attention.focus.simplex import greatest, gumbel_noise, log_softmax, one_hot
from regard.masks import exact
from regard.shapes import Bool, Float, Tensor


@focuses.register("hard")
class Hard(Focus):
    r"""Attend to one position, sampled from the softmax (Xu et al. 2015, section 4.1: "stochastic hard attention").

    .. math:: \tilde s_t \sim \mathrm{Multinoulli}(\alpha_t) \qquad \alpha_{t,i} \propto \exp(e_{t,i})

    No gradient passes through a sample. The loss gets one by REINFORCE from what is returned here, the log-probability
    of the samples and the entropy of their distribution (the last equation of section 4.1):

    .. math:: \frac{\partial L}{\partial W} \approx \frac{\partial \log p(y \mid \tilde s, a)}{\partial W}
        + \lambda_r (\log p(y \mid \tilde s, a) - b) \frac{\partial \log p(\tilde s \mid a)}{\partial W}
        + \lambda_e \frac{\partial H[\tilde s]}{\partial W}
        \qquad b_k = 0.9\, b_{k-1} + 0.1 \log p(y \mid \tilde s_k, a)

    `baseline` is that `b`. It and `steps` are parameters so that checkpoints save them, but have no gradient: `update`
    sets them, and they do not count as trainable. To reduce the variance of the gradient further, a step is soft with
    probability `model.attention.soft_chance`; a soft step has no sample, and its log-probability is zero. All steps are
    soft in the first `model.attention.soft_first` training steps: while the words do not yet depend on the attention,
    rewards alone hardly teach it anything. `chances` holds `alpha`, for losses on it (`training.guided`).
    In evaluation all weight is on the most probable position, and there are no extras.
    Differs from the paper: whether to be soft is decided for each step, not once per sentence, as attention keeps no
    state; and the soft steps at the start of training.
    """

    decay = 0.9

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.soft_chance, self.soft_first = sizes.soft_chance, sizes.soft_first
        self.baseline = nn.Parameter(torch.zeros(1), requires_grad=False)
        self.steps = nn.Parameter(torch.zeros(1), requires_grad=False)
        """Training steps so far: a tensor on the device, so that a captured CUDA graph reads its current value."""

    def forward(
        self,
        scores: Float[Tensor, "B H T S"],
        allowed: Bool[Tensor, "B #H #T S"],
        last: Float[Tensor, "B H S"] | None = None,
    ) -> Focused:
        """Sample a position for each row in training; take the best in evaluation."""
        if not self.training:
            return Focused(one_hot(greatest(exact(scores), allowed), allowed, scores))
        logs = log_softmax(scores, allowed)
        soft = logs.exp().masked_fill(~allowed, 0.0)
        drawn = one_hot(greatest(logs.detach() + gumbel_noise(logs), allowed), allowed, logs)
        batch, _, steps, _ = scores.shape
        is_soft = torch.rand(batch, 1, steps, 1, device=scores.device) < self.soft_chance
        if self.soft_first:
            is_soft = is_soft | (self.steps < self.soft_first)
        return Focused(
            torch.where(is_soft, soft, drawn).to(scores.dtype),
            (drawn * logs).masked_fill(is_soft, 0.0).sum(dim=-1),
            -(soft * logs).sum(dim=-1),
            chances=soft.to(scores.dtype),
        )

    @torch.no_grad()
    def update(self, log_likelihood: Float[Tensor, ""]) -> None:
        """Count a training step, and move the baseline towards the mean log-likelihood per target."""
        self.steps.add_(1.0)
        self.baseline.mul_(self.decay).add_((1 - self.decay) * log_likelihood)
