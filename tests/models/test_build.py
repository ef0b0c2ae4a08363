"""First weights that have a meaning of their own, and settings that would have no effect."""

from dataclasses import replace

import pytest
import torch

from regard.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from regard.errors import ConfigError
from regard.models.build import build_model
from regard.models.model_folder import learned

W = 29


def test_what_no_gradient_teaches_is_not_counted():
    soft, hard = (
        build_model(ModelConfig(attention=AttentionConfig(focus=focus)), W, W) for focus in ("softmax", "hard")
    )
    assert learned(soft) == learned(hard) == sum(weight.numel() for weight in soft.parameters())
    assert sum(weight.numel() for weight in hard.parameters()) == learned(hard) + 2  # its baseline, and its steps


def test_learned_scales_and_offsets_start_where_their_papers_say():
    cosine = build_model(ModelConfig(decoder=DecoderConfig(width=512), attention=AttentionConfig("cosine")), W, W)
    torch.testing.assert_close(cosine.decoder.attention.score.log_beta.exp(), torch.tensor([512**0.5]))
    monotonic = build_model(ModelConfig(attention=AttentionConfig(focus="monotonic")), W, W)
    assert monotonic.decoder.attention.focus.r.tolist() == [-1.0]


def test_biases_start_at_zero_but_for_the_forget_gate():
    model = build_model(ModelConfig(encoder=EncoderConfig(cell="lstm"), decoder=DecoderConfig(cell="lstm")), W, W)
    for name, parameter in model.named_parameters():
        if "bias_ih" in name:
            width = len(parameter) // 4
            assert (parameter[width : 2 * width] == 1).all()
            assert (parameter[:width] == 0).all()
        elif "bias" in name:
            assert (parameter == 0).all(), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"positions": "rotary"},
            "model.positions=rotary acts in self-attention, and this model has none: set it to none, or use learned "
            "or sinusoidal, which are added to embeddings.",
        ),
        (
            {"self_attention": AttentionConfig("nonsense")},
            "No attention score named 'nonsense'. (regard list scores shows all)",
        ),
        (
            {"attention": AttentionConfig(heads=4, pruned=("3.0",))},
            "model.attention.pruned contains '3.0', but the last layer is 0, counted from 0.",
        ),
        ({"encoder": EncoderConfig(norm="nonsense")}, "model.encoder.norm must be one of pre, post, got 'nonsense'."),
        (
            {"decoder": DecoderConfig(fusion="nonsense")},
            "model.decoder.fusion must be one of deep, shallow, got 'nonsense'.",
        ),
        (
            {"encoder": EncoderConfig("lstmn"), "self_attention": AttentionConfig("additive", focus="hard")},
            "model.self_attention.focus=hard gets its reward from the target token that follows each step, and the "
            "steps of an encoder's self-attention have none: use gumbel, which has a gradient of its own.",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused(change, message):
    with pytest.raises(ConfigError) as caught:
        build_model(replace(ModelConfig(), **change), W, W)
    assert str(caught.value) == message
