"""The networks of the benches, with regard's weights, as checkpoints of Joey NMT 2.3.

Both have norms first, biases in every map of a Transformer, scaled embeddings, the same sines and cosines, and an LSTM
that reads [word; fed] and writes from [state; context]. Joey's marks have another order, so two rows of what is counted
by words change places. What Joey's network has no place for lies beside its own weights, and the worker makes room for
it before they are read (joey.py): the bias of the output, and the maps that an LSTM's decoder starts from. Joey adds
the end mark to what it reads by itself.
"""

from pathlib import Path
from typing import Any

import torch
from to_opennmt import Weights, nothing_left, part, renamed, waves, weights_of
from torch import Tensor

from regard.data.special_tokens import PAD, UNK
from regard.models.seq2seq import Seq2Seq

HEADS = {"W_q": "q_layer", "W_k": "k_layer", "W_v": "v_layer", "W_o": "output_layer"}
NETWORK = {
    "feed_forward.W_1": "feed_forward.pwff_layer.0",
    "feed_forward.W_2": "feed_forward.pwff_layer.3",
    "around_network.norm": "feed_forward.layer_norm",
}
ENCODER = {
    **{f"self_attention.heads.{ours}": f"src_src_att.{theirs}" for ours, theirs in HEADS.items()},
    "around_look.norm": "layer_norm",
    **NETWORK,
}
DECODER = {
    **{f"self_attention.heads.{ours}": f"trg_trg_att.{theirs}" for ours, theirs in HEADS.items()},
    **{f"attention.heads.{ours}": f"src_trg_att.{theirs}" for ours, theirs in HEADS.items()},
    "around_past.norm": "x_layer_norm",
    "around_source.norm": "dec_layer_norm",
    **NETWORK,
}
"""The parts of a Transformer's layers, ours and theirs."""


def write(folder: Path, model: Seq2Seq, pieces: list[str], size: dict[str, Any], lines: list[list[str]]) -> None:
    """Write a model, its vocabulary (`pieces` are those that follow the marks) and the test sentences."""
    torch.save({"model_state": state(model, size)}, folder / "latest.ckpt")
    (folder / "words.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    (folder / "test.en").write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")


def state(model: Seq2Seq, size: dict[str, Any]) -> Weights:
    """Return the weights by their names in Joey NMT."""
    weights = weights_of(model)
    found = {
        "src_embed.lut.weight": swapped(weights.pop("source_embedding.weight")),
        "trg_embed.lut.weight": swapped(weights.pop("decoder.embedding.weight")),
        **{f"decoder.output_layer.{name}": swapped(weight) for name, weight in part(weights, "decoder.output")},
        **(transformer(weights, size["layers"], waves(model)) if "layers" in size else lstm(weights)),
    }
    nothing_left(weights, "Joey NMT")
    return found


def swapped(table: Tensor) -> Tensor:
    """Put the mark for what is unknown before that of padding."""
    table[[PAD, UNK]] = table[[UNK, PAD]]
    return table


def transformer(weights: Weights, layers: int, positions: Tensor) -> Weights:
    """Give the layers of a Transformer their names in Joey NMT."""
    parts = {"encoder.norm": "encoder.layer_norm", "decoder.norm": "decoder.layer_norm"}
    for layer in range(layers):
        for ours, theirs, own in (("encoder.layers", "encoder", ENCODER), ("decoder.stack", "decoder", DECODER)):
            parts |= {f"{ours}.{layer}.{one}": f"{theirs}.layers.{layer}.{other}" for one, other in own.items()}
    return {"encoder.pe.pe": positions, "decoder.pe.pe": positions, **renamed(weights, parts)}


def lstm(weights: Weights) -> Weights:
    """Give the layers of an LSTM with additive attention and input feeding their names in Joey NMT."""
    readout, cell = weights.pop("decoder.readout.W_c.weight"), "decoder.stack.0.network.weight_ih_l0"
    weights[cell] = torch.cat([weights[cell], weights.pop("decoder.fed_inputs.weight")], dim=1)
    parts = {
        "encoder.layers.0": "encoder.rnn",
        "decoder.stack.0.network": "decoder.rnn",
        "decoder.bridge.W_s": "decoder.start",
        "decoder.attention.score.W_a": "decoder.attention.query_layer",
        "decoder.attention.score.U_a": "decoder.attention.key_layer",
        "decoder.attention.score.v_a": "decoder.attention.energy_layer",
    }
    return {
        "decoder.att_vector_layer.weight": readout,
        "decoder.att_vector_layer.bias": torch.zeros(len(readout)),
        **renamed(weights, parts),
    }
