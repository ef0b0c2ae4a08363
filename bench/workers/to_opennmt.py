"""The networks of the benches, with regard's weights, as checkpoints of OpenNMT-py 3.5.1.

The Transformer is one that OpenNMT-py has: norms first, biases everywhere (`add_qkvbias`), the same sines and cosines.
Of the LSTM, two things are not: OpenNMT-py's additive attention ("mlp") has no tanh after `linear_out`, as its other
kinds have, and its decoder starts from the encoder's last states themselves, or from a ReLU of a map of each. The
weights of our start lie in the checkpoint under "start", and the worker puts both in (opennmt.py).
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.special_tokens import EOS
from regard.models.seq2seq import Seq2Seq

MARKS = ("<blank>", "<unk>", "<s>", "</s>")
"""What OpenNMT-py calls ours, in our order."""
POSITIONS = 5000
"""How many OpenNMT-py keeps."""
TABLE = "embeddings.make_embedding.emb_luts.0.weight"
WAVES = "embeddings.make_embedding.pe.pe"

HEADS = {"W_q": "linear_query", "W_k": "linear_keys", "W_v": "linear_values", "W_o": "final_linear"}
LAYER = {
    **{f"self_attention.heads.{ours}": f"self_attn.{theirs}" for ours, theirs in HEADS.items()},
    **{f"attention.heads.{ours}": f"context_attn.{theirs}" for ours, theirs in HEADS.items()},
    "feed_forward.W_1": "feed_forward.w_1",
    "feed_forward.W_2": "feed_forward.w_2",
    "around_network.norm": "feed_forward.layer_norm",
    "around_look.norm": "layer_norm",
    "around_past.norm": "layer_norm_1",
    "around_source.norm": "layer_norm_2",
}
"""The parts of a Transformer's layer, ours and theirs; each side has some of them."""
TRAINED = {"dropout": 0.0, "freeze_word_vecs_enc": False, "freeze_word_vecs_dec": False, "optim": "adam"}
"""Options of its training that OpenNMT-py asks for when it builds a model."""

Weights = dict[str, Tensor]


def write(folder: Path, model: Seq2Seq, pieces: list[str], size: dict[str, Any], lines: list[list[str]]) -> None:
    """Write a model, and the test sentences: regard reads the end mark too, which OpenNMT-py does not add."""
    torch.save(checkpoint(model, pieces, size), folder / "model.pt")
    text = "".join(" ".join([*line, MARKS[EOS]]) + "\n" for line in lines)
    (folder / "test.en").write_text(text, encoding="utf-8")


def checkpoint(model: Seq2Seq, pieces: list[str], size: dict[str, Any]) -> dict[str, Any]:
    """Return what OpenNMT-py would have saved; `pieces` are those of the vocabulary that follow the marks."""
    weights = weights_of(model)
    is_transformer = "layers" in size
    words = [*MARKS, *pieces]
    made = {
        "model": transformer(weights, size["layers"], waves(model)) if is_transformer else lstm(weights),
        "generator": dict(part(weights, "decoder.output")),
        "vocab": {"src": words, "tgt": words, "data_task": "seq2seq", "decoder_start_token": "<s>"},
        "opt": transformer_options(size) if is_transformer else lstm_options(size),
    }
    if not is_transformer:
        made["start"] = dict(part(weights, "decoder.bridge.W_s"))
    nothing_left(weights, "OpenNMT-py")
    return made


def weights_of(model: Seq2Seq) -> Weights:
    """Return a model's weights, to be taken out one by one."""
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}


def nothing_left(weights: Weights, toolkit: str) -> None:
    """See that all weights have been taken."""
    if weights:
        raise SystemExit(f"{toolkit}'s network has no place for {', '.join(weights)}.")


def part(weights: Weights, name: str) -> Iterator[tuple[str, Tensor]]:
    """Take out the weights of a part, by their names in it."""
    for key in [key for key in weights if key.startswith(f"{name}.")]:
        yield key.removeprefix(f"{name}."), weights.pop(key)


def renamed(weights: Weights, parts: Mapping[str, str]) -> Weights:
    """Take out the weights of parts, ours by name, and give them another's names."""
    return {f"{theirs}.{name}": weight for ours, theirs in parts.items() for name, weight in part(weights, ours)}


def transformer_options(size: dict[str, Any]) -> Namespace:
    """Say which Transformer; all else is OpenNMT-py's default."""
    return Namespace(
        encoder_type="transformer",
        decoder_type="transformer",
        # As torch has it: CTranslate2 does too, whatever stands here.
        norm_eps=1e-5,
        position_encoding=True,
        add_qkvbias=True,
        add_ffnbias=True,
        enc_layers=size["layers"],
        dec_layers=size["layers"],
        heads=size["heads"],
        hidden_size=size["width"],
        word_vec_size=size["width"],
        transformer_ff=size["feed_forward"],
        share_embeddings=True,
        share_decoder_embeddings=True,
        # CTranslate2's converter knows this attention by its older name only; OpenNMT-py takes what its options say.
        self_attn_type="scaled-dot",
        **TRAINED,
    )


def lstm_options(size: dict[str, Any]) -> Namespace:
    """Say which LSTM; all else is OpenNMT-py's default."""
    return Namespace(
        encoder_type="brnn",
        decoder_type="rnn",
        rnn_type="LSTM",
        enc_layers=1,
        dec_layers=1,
        enc_hid_size=2 * size["encoder"],
        dec_hid_size=size["decoder"],
        word_vec_size=size["embedding"],
        input_feed=1,
        global_attention="mlp",
        **TRAINED,
    )


def waves(model: Seq2Seq) -> Tensor:
    """Return what the model adds to embeddings at each position."""
    table = model.source_embedding
    assert table is not None
    assert table.position is not None
    return table.position.embed(torch.zeros(1, POSITIONS, table.embedding_dim), 0)


def transformer(weights: Weights, layers: int, positions: Tensor) -> Weights:
    """Give the weights of a Transformer their names in OpenNMT-py."""
    found = {
        f"encoder.{TABLE}": weights.pop("source_embedding.weight"),
        f"decoder.{TABLE}": weights.pop("decoder.embedding.weight"),
        f"encoder.{WAVES}": positions.transpose(0, 1),
        f"decoder.{WAVES}": positions.transpose(0, 1),
    }
    parts = {"encoder.norm": "encoder.layer_norm", "decoder.norm": "decoder.layer_norm"}
    for layer in range(layers):
        for ours, theirs in (
            ("encoder.layers", "encoder.transformer"),
            ("decoder.stack", "decoder.transformer_layers"),
        ):
            parts |= {f"{ours}.{layer}.{own}": f"{theirs}.{layer}.{their}" for own, their in LAYER.items()}
    return found | renamed(weights, parts)


def lstm(weights: Weights) -> Weights:
    """Give the weights of an LSTM with additive attention and input feeding their names in OpenNMT-py."""
    cell = dict(part(weights, "decoder.stack.0.network"))
    # What enters a step is [word; fed], as one. A readout reads [context; state], ours [state; context].
    entering = torch.cat([cell["weight_ih_l0"], weights.pop("decoder.fed_inputs.weight")], dim=1)
    state, context = weights.pop("decoder.readout.W_c.weight").chunk(2, dim=1)
    width = len(state)
    return {
        f"encoder.{TABLE}": weights.pop("source_embedding.weight"),
        f"decoder.{TABLE}": weights.pop("decoder.embedding.weight"),
        **{f"encoder.rnn.{name}": weight for name, weight in part(weights, "encoder.layers.0")},
        "decoder.rnn.layers.0.weight_ih": entering,
        **{f"decoder.rnn.layers.0.{name}": cell[f"{name}_l0"] for name in ("weight_hh", "bias_ih", "bias_hh")},
        "decoder.attn.linear_query.weight": weights.pop("decoder.attention.score.W_a.weight"),
        "decoder.attn.linear_query.bias": torch.zeros(width),
        "decoder.attn.linear_context.weight": weights.pop("decoder.attention.score.U_a.weight"),
        "decoder.attn.v.weight": weights.pop("decoder.attention.score.v_a.weight"),
        "decoder.attn.linear_out.weight": torch.cat([context, state], dim=1),
        "decoder.attn.linear_out.bias": torch.zeros(width),
    }
