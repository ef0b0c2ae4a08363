"""OpenNMT-py: trains and translates by its own loop, its own batches and its own search."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from talk import Boss, Meter, Task, serve, threads, toolkit


def settings(task: Task) -> list[str]:
    """Say in OpenNMT-py's terms what is to be trained, and on what."""
    data, folder = Path(task["data"]), Path(task["folder"])
    corpus = {"path_src": str(data / "train.bpe.en"), "path_tgt": str(data / "train.bpe.de"), "transforms": []}
    gpu = ["-world_size", "1", "-gpu_ranks", "0"] if task["device"] == "cuda" else []
    return [
        *("-data", json.dumps({"train": corpus}), "-save_model", str(folder / "model")),
        *("-src_vocab", str(data / "words.tsv"), "-tgt_vocab", str(data / "words.tsv"), "-share_vocab"),
        *("-src_vocab_size", "10000", "-tgt_vocab_size", "10000", "-vocab_size_multiple", "1"),
        *("-optim", "adam", "-learning_rate", str(task["rate"]), "-max_grad_norm", "1", "-normalization", "tokens"),
        *("-batch_type", "sents", "-batch_size", str(task["batch"])),
        # Batches made ahead in other processes would be made while this one waits for its turn, off the clock.
        *("-num_workers", "0", "-bucket_size", "30000"),
        *("-train_steps", str(task["steps"] or 10**9), "-save_checkpoint_steps", str(task["steps"] or 10**9)),
        *("-valid_steps", str(10**9), "-report_every", "100", "-seed", str(task["seed"])),
        *("-dropout", str(task["dropout"]), "-attention_dropout", str(task["dropout"])),
        *gpu,
        *network(task),
    ]


def network(task: Task) -> list[str]:
    """Say which network."""
    size = task["size"]
    if task["model"] == "transformer":
        return [
            *("-encoder_type", "transformer", "-decoder_type", "transformer", "-position_encoding"),
            *("-layers", str(size["layers"]), "-heads", str(size["heads"]), "-hidden_size", str(size["width"])),
            *("-word_vec_size", str(size["width"]), "-transformer_ff", str(size["feed_forward"])),
            *("-share_embeddings", "-share_decoder_embeddings"),
            *("-param_init", "0", "-param_init_glorot"),
        ]
    return [
        *("-encoder_type", "brnn", "-decoder_type", "rnn", "-rnn_type", size["cell"].upper(), "-layers", "1"),
        # An encoder of two directions shares its width between them.
        *("-enc_hid_size", str(2 * size["encoder"]), "-dec_hid_size", str(size["decoder"])),
        *("-word_vec_size", str(size["embedding"]), "-input_feed", "1"),
        *("-global_attention", "general" if task["model"].endswith("general") else "mlp"),
    ]


def train(boss: Boss, task: Task) -> None:
    """Train by OpenNMT-py's own `train`, counting on the way."""
    command, trainer = toolkit("onmt.bin.train"), toolkit("onmt.trainer").Trainer
    seen = SimpleNamespace(model=None)
    step = trainer._gradient_accumulation
    meter = Meter(boss, task, lambda: seen.model, toolkit("importlib.metadata").version("OpenNMT-py"))

    def counted(self: Any, batches: Any, *rest: Any) -> Any:
        seen.model = self.model
        for batch in batches:
            target = batch["tgt"][:, 1:, 0]
            meter.saw(int(target.ne(self.train_loss.padding_idx).sum()), target.numel())
        return step(self, batches, *rest)

    trainer._gradient_accumulation = counted
    Path(task["folder"]).mkdir(parents=True, exist_ok=True)
    command.train(command._get_parser().parse_args(settings(task)))


def start_and_bend(model: Any, start: dict[str, Any]) -> None:
    """Put into OpenNMT-py's LSTM what ours has and no option of it asks for (to_opennmt.py).

    That is a tanh over what leaves the attention, and a decoder that starts from tanh(W h) of the backward direction.
    """
    import torch

    attention, encoder = model.decoder.attn, model.encoder
    attention.linear_out = torch.nn.Sequential(attention.linear_out, torch.nn.Tanh())
    maps = [(start[f"{kind}.weight"], start[f"{kind}.bias"]) for kind in range(2)]

    def bridge(final: tuple[Any, Any]) -> tuple[Any, ...]:
        begun = (torch.tanh(torch.nn.functional.linear(of[1], *own)) for of, own in zip(final, maps, strict=True))
        return tuple(torch.stack(whole.chunk(2, dim=-1)) for whole in begun)  # the decoder joins two directions

    encoder.use_bridge, encoder._bridge = True, bridge


def decode(boss: Boss, task: Task) -> None:
    """Translate by OpenNMT-py's own engine, with regard's weights."""
    import torch

    command, engine = toolkit("onmt.bin.translate"), toolkit("onmt.inference_engine")
    parse = toolkit("onmt.utils.parse").ArgumentParser
    file = Path(task["folder"]) / "model.pt"
    start = torch.load(file, map_location=task["device"], weights_only=False).get("start")
    engines: dict[int, Any] = {}

    def engine_of(beam: int) -> Any:
        given = ["-model", str(file), "-src", "none", "-beam_size", str(beam), "-batch_type", "sents"]
        given += ["-batch_size", str(task["batch"]), "-max_length", str(task["longest"]), "-max_length_ratio", "0"]
        given += ["-length_penalty", "wu", "-alpha", str(task["length_penalty"])]
        options = command._get_parser().parse_args([*given, *(["-gpu", "0"] if task["device"] == "cuda" else [])])
        parse.validate_translate_opts(options)
        parse._get_all_transform_translate(options)
        parse._validate_transforms_opts(options)
        parse.validate_translate_opts_dynamic(options)
        made = engine.InferenceEnginePY(options)
        if start is not None:
            start_and_bend(made.translator.model, start)
        return made

    def translate(lines: Sequence[str], beam: int) -> list[list[str]]:
        _, found = engines[beam].infer_list(list(lines))
        return [best[0].split() for best in found]

    for beam in (1, task["beam"]):
        engines[beam] = engine_of(beam)
    network = engines[1].translator.model
    about = {"version": toolkit("importlib.metadata").version("OpenNMT-py"), "torch": torch.__version__}
    serve(boss, translate, parameters=sum(p.numel() for p in network.parameters()), **about)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    threads(given)
    {"train": train, "decode": decode}[given["work"]](Boss(), given)
