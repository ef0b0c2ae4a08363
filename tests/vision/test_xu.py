"""The captioner of Xu et al. 2015 beside its equations, one image and one step at a time. Axes are distinct primes."""

import pytest
import torch

from regard.config import AttentionConfig, DecoderConfig, EncoderConfig, ImageConfig, ModelConfig
from regard.native.weight_layout import DecoderPlan, UnknownError
from regard.training.auxiliary_losses import doubly_stochastic_loss
from regard.vision.build import build_captioner

D, E, N, A, R, W = 11, 7, 13, 5, 3, 17


def made(kind="xu", readout="sum"):
    torch.manual_seed(1)
    config = ModelConfig(
        embedding=E,
        encoder=EncoderConfig("none"),
        decoder=DecoderConfig(kind, "lstm", width=N, readout=readout, readout_width=E, start="mean"),
        attention=AttentionConfig("additive", width=A),
        image=ImageConfig("regions", channels=R, size=0, width=D),
    )
    return build_captioner(config, W).eval()


def test_xu2015_is_the_paper_s():
    model = made().double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    p = dict(model.named_parameters())
    regions, y = torch.randn(1, 6, R, dtype=torch.float64), torch.randint(4, W, (5,))
    a = [p["encoder.stem.W.weight"] @ region + p["encoder.stem.W.bias"] for region in regions[0]]
    h = torch.tanh(p["decoder.bridge.W_s.0.weight"] @ (sum(a) / 6) + p["decoder.bridge.W_s.0.bias"])
    c = torch.zeros(N, dtype=torch.float64)
    logits, weights = [], []
    for word in p["decoder.embedding.weight"][y]:
        W_a, U_a, v_a = (p[f"decoder.attention.score.{part}.weight"] for part in ("W_a", "U_a", "v_a"))
        e = torch.stack([(v_a @ torch.tanh(W_a @ h + U_a @ a_i))[0] for a_i in a])
        alpha = torch.exp(e) / torch.exp(e).sum()  # equations 4 and 5
        beta = 1 / (1 + torch.exp(-(p["decoder.f_beta.weight"] @ h + p["decoder.f_beta.bias"])))  # section 4.2.1
        z = beta * sum(alpha_i * a_i for alpha_i, a_i in zip(alpha, a, strict=True))  # 13
        cell = "decoder.stack.0.network"
        gates = p[f"{cell}.weight_ih_l0"] @ word + p[f"{cell}.bias_ih_l0"] + p["decoder.context_inputs.weight"] @ z
        i, f, g, o = (gates + p[f"{cell}.weight_hh_l0"] @ h + p[f"{cell}.bias_hh_l0"]).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)  # 1 to 3
        h = torch.sigmoid(o) * torch.tanh(c)
        L_h, L_y, L_z = p["decoder.readout.L.weight"].split([N, E, D], dim=1)
        deep = L_y @ word + L_h @ h + L_z @ z  # 7
        logits.append(p["decoder.output.weight"] @ deep + p["decoder.output.bias"])
        weights.append(alpha)
    taught = model.decoder.teach(y[None], model.encode(regions))
    torch.testing.assert_close(taught.weights[0, :, 0, 0], torch.stack(weights))
    torch.testing.assert_close(model.decoder.project(taught.features)[0], torch.stack(logits))


def test_doubly_stochastic_loss_is_the_paper_s():
    torch.manual_seed(1)
    weights = torch.softmax(torch.randn(2, 5, 2, 3, 7), dim=-1).requires_grad_()
    mask, cells = torch.arange(5) < torch.tensor([[5], [3]]), torch.arange(7) < torch.tensor([[7], [4]])
    total = 0.0
    for b, (steps, size) in enumerate(((5, 7), (3, 4))):
        for i in range(size):
            seen = sum(
                weights[b, t, layer, head, i] / 6 for t in range(steps) for layer in range(2) for head in range(3)
            )
            total += (1 - seen) ** 2  # equation 14
    found = doubly_stochastic_loss(weights, mask, cells)
    torch.testing.assert_close(found, total)
    found.backward()
    assert (weights.grad[1, 3:] == 0).all()
    assert (weights.grad[1, ..., 4:] == 0).all()


def test_looks_that_go_everywhere_once_cost_nothing_and_a_stare_costs():
    everywhere, stare = torch.eye(5), torch.eye(5)[[2] * 5]
    whole = torch.ones(1, 5, dtype=torch.bool)
    assert doubly_stochastic_loss(everywhere[None, :, None, None], whole, whole) == 0
    assert doubly_stochastic_loss(stare[None, :, None, None], whole, whole) == (1 - 5) ** 2 + 4


@pytest.mark.parametrize(("kind", "readout"), [("xu", "tanh"), ("bahdanau", "sum")])
def test_the_compiled_search_leaves_what_it_does_not_know_to_python(kind, readout):
    assert DecoderPlan(made("bahdanau", "tanh").decoder, positions=9)
    with pytest.raises(UnknownError):
        DecoderPlan(made(kind, readout).decoder, positions=9)
