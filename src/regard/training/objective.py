"""What training makes small for a batch: the cross-entropy, and the losses beside it that were asked for."""

import torch
from torch.nn import functional

from regard.attention.focus.hard import Hard
from regard.config import TrainingConfig
from regard.data.batching import Batch, twice
from regard.errors import ConfigError
from regard.models.protocol import Encoded, TeacherForced
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Float, Tensor
from regard.task import BatchLoss
from regard.training.auxiliary_losses import (
    check_looks,
    coverage_loss,
    doubly_stochastic_loss,
    guided_loss,
    one_step_later,
    reinforce,
)
from regard.training.fused_loss import LossOptions, output_loss
from regard.training.plain_loss import encode_batch
from regard.training.scheduled_sampling import mixed_tokens
from regard.vision.questions.scoring import astray


class SequenceObjective:
    """The loss of a training batch, by a run's settings."""

    def __init__(self, model: Seq2Seq, settings: TrainingConfig) -> None:
        self._model, self._settings = model, settings
        # Each hard focus has a baseline of its own; what they choose is rewarded together, so they are all the same.
        self._hard = [module for module in model.modules() if isinstance(module, Hard)]

    @property
    def reads_with_host(self) -> bool:
        """Whether the model's encoder asks the host for the lengths of sources."""
        return self._model.encoder.asks_lengths

    def __call__(self, batch: Batch, ratio: float = 1.0) -> BatchLoss:
        """Run the model over a batch; `ratio` is how often it reads the right words."""
        return self.write(batch, self.read(batch), ratio)

    def read(self, batch: Batch) -> Encoded:
        """Let the model read the sources of a batch."""
        return encode_batch(self._model, self._passes(batch))

    def _passes(self, batch: Batch) -> Batch:
        return twice(batch) if self._settings.r_drop > 0 else batch

    def write(self, batch: Batch, encoded: Encoded, ratio: float = 1.0) -> BatchLoss:
        """Let the model write the targets of a batch, whose sources it has read."""
        model, batch = self._model, self._passes(batch)
        read = batch.tokens_in if ratio >= 1 else mixed_tokens(model, encoded, batch.tokens_in, ratio)
        if ratio < 1 and self._settings.r_drop > 0:
            read = read.chunk(2)[0].repeat(2, 1)  # both passes read the same words
        look = self._settings.guided > 0 or self._settings.doubly_stochastic > 0
        taught = model.decoder.teach(read, encoded, look=look)
        # The output layer, a model's dearest part, never sees padding.
        wanted = LossOptions(self._settings.label_smoothing, self._settings.r_drop)
        features, right = batch.at_tokens(taught.features), batch.at_tokens(batch.tokens_out)
        copied = None
        if taught.copied is not None:
            both = (taught.copied.generated, taught.copied.of(batch.tokens_out))
            copied = batch.at_tokens(torch.stack(both, dim=-1))
        loss = output_loss(model.decoder.output, features, right, wanted, copied)
        made = self._beside(BatchLoss(loss.total, loss.smoothed, {}, None), taught, encoded, batch)
        if taught.extras.log_prob is not None:
            made = self._rewarded(made, taught, loss.nll, batch)
        return made._replace(beside={**made.beside, "disagreement": loss.r_drop}) if wanted.r_drop > 0 else made

    @property
    def _share(self) -> float:
        """How much a pass over the batch counts."""
        return 0.5 if self._settings.r_drop > 0 else 1.0

    def _beside(self, made: BatchLoss, taught: TeacherForced, encoded: Encoded, batch: Batch) -> BatchLoss:
        settings, total, beside = self._settings, made.total, dict(made.beside)
        if settings.coverage_loss > 0:
            if taught.extras.overlap is None:
                raise ConfigError("training.coverage_loss needs a decoder that tells its coverage: set it to 0.")
            again = self._share * coverage_loss(taught.extras.overlap, batch.target_mask)
            total, beside["coverage_loss"] = total + settings.coverage_loss * again, again.detach()
        if settings.guided > 0:
            assert taught.weights is not None
            away = self._share * self._away(taught.weights, batch)
            total, beside["guided_loss"] = total + settings.guided * away, away.detach()
        if settings.doubly_stochastic > 0:
            assert taught.weights is not None
            cells = encoded.mask & batch.target_mask.any(dim=1, keepdim=True)  # none of a row that fills a batch up
            passed = self._share * doubly_stochastic_loss(taught.weights, batch.target_mask, cells)
            total, beside["doubly_stochastic"] = total + settings.doubly_stochastic * passed, passed.detach()
        return made._replace(total=total, beside=beside)

    def _away(self, weights: Float[Tensor, "B T L H S"], batch: Batch) -> Float[Tensor, ""]:
        """Sum how far looks were from the gold: the cells that a caption's words speak of, or aligned words."""
        layer, head, later = self._settings.guided_layer, self._settings.guided_head, self._settings.guided_shift
        places = batch.places
        if places is not None:
            if later:
                places = functional.pad(places, (0, 0, 1, -1)) & batch.target_mask[:, :, None]
            return astray(weights, places, layer, head)
        if batch.links is None:
            raise ConfigError(NO_LINKS)
        links = one_step_later(batch.links, batch.target_mask) if later else batch.links
        return guided_loss(weights, links, layer, head)

    def _rewarded(self, made: BatchLoss, taught: TeacherForced, nll: Float[Tensor, " N"], batch: Batch) -> BatchLoss:
        assert taught.extras.log_prob is not None
        mask, settings = batch.target_mask, self._settings
        right = torch.zeros(mask.shape, device=mask.device)
        if batch.is_filled:
            right = -nll.view_as(right)
        elif batch.written is None:
            right[mask] = -nll
        else:
            right.view(-1)[batch.written] = -nll
        baseline = self._hard[0].baseline[0] if self._hard else right.new_zeros(())
        reward = reinforce(
            taught.extras.log_prob, taught.extras.entropy, right, mask, baseline, (settings.reinforce, settings.entropy)
        )
        beside = {**made.beside, "attention_entropy": self._share * reward.entropy}
        return BatchLoss(made.total + self._share * reward.total, made.loss, beside, reward.reached)

    @torch.no_grad()
    def settle(self, reached: list[Tensor]) -> None:
        """Let the baselines follow the rewards of a step's sentences, once for all its batches."""
        if reached:
            mean = torch.cat(reached).mean()
            for focus in self._hard:
                focus.update(mean)

    def check(self, batch: Batch) -> None:
        """Raise a ConfigError where the model or the corpus lacks what a loss is made of, before the first step."""
        if self._settings.guided > 0:
            if batch.links is None and batch.named is None:
                raise ConfigError(NO_LINKS)
            taught = self._model.decoder.teach(batch.tokens_in, encode_batch(self._model, batch), look=True)
            assert taught.weights is not None
            check_looks(taught.weights, self._settings.guided_layer, self._settings.guided_head)


NO_LINKS = (
    "training.guided needs gold alignments, and the training corpus has none: give them as a third file or column, or "
    "set training.guided=0."
)
