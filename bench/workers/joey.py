"""Joey NMT: trains and translates by its own loop, its own batches and its own search.

It translates with regard's weights, and the network gets what ours has and no option of Joey's asks for: a bias of the
output, the epsilon of our norms, and a start of the LSTM from tanh(W h) and tanh(W c) of the encoder's backward
direction (Joey's starts both from its last states h). None of that takes time worth measuring. No unknown word is
written (`generate_unk`), as in regard.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from talk import Boss, Meter, Task, serve, threads, toolkit

MARKS = {"unk_token": "<unk>", "unk_id": 0, "pad_token": "<pad>", "pad_id": 1}
MARKS |= {"bos_token": "<s>", "bos_id": 2, "eos_token": "</s>", "eos_id": 3}
EPSILON = 1e-5
"""Of our norms, as torch has it; Joey's have 1e-6."""


def settings(task: Task) -> dict[str, Any]:
    """Say in Joey's terms what is to be trained, and on what."""
    data = Path(task["data"])
    # A model of ours has its own pieces.
    words = (Path(task["folder"]) if task["work"] == "decode" else data) / "words.txt"

    def side(language: str) -> dict[str, Any]:
        # Texts are cut into pieces already: "word" cuts at spaces.
        return {"lang": language, "level": "word", "voc_file": str(words), "lowercase": False}

    return {
        "name": "bench",
        "joeynmt_version": "2.3.0",
        "model_dir": task["folder"],
        "use_cuda": task["device"] == "cuda",
        "random_seed": task["seed"],
        "fp16": bool(task.get("half")),
        "data": {
            "train": str(data / "train.bpe"),
            "dev": str(data / "few.bpe"),
            "dataset_type": "plain",
            "src": side("en"),
            "trg": side("de"),
            "special_symbols": MARKS,
        },
        "training": {
            "optimizer": "adam",
            "learning_rate": task["rate"],
            "learning_rate_min": 1e-9,
            "scheduling": "plateau",  # at validations, of which there are none: constant
            "clip_grad_norm": 1.0,
            "batch_size": task["batch"],
            "batch_type": "sentence",
            "normalization": "tokens",
            "epochs": 1000,
            "updates": task["steps"] or 10**9,
            "logging_freq": 100,
            "validation_freq": 10**8,
            "keep_best_ckpts": 1,
        },
        "testing": {"beam_size": 1, "batch_size": task["batch"], "batch_type": "sentence"},
        "model": {"initializer": "xavier_uniform", "bias_initializer": "zeros", **network(task)},
    }


def network(task: Task) -> dict[str, Any]:
    """Say which network."""
    size, dropout = task["size"], task["dropout"]
    embeddings = {"embedding_dim": size["embedding"], "dropout": dropout}
    if task["model"] == "transformer":
        layers: dict[str, Any] = {
            "type": "transformer",
            "num_layers": size["layers"],
            "num_heads": size["heads"],
            "embeddings": {**embeddings, "scale": True},
            "hidden_size": size["width"],
            "ff_size": size["feed_forward"],
            "dropout": dropout,
            "layer_norm": "pre",
        }
        return {"tied_embeddings": True, "tied_softmax": True, "encoder": layers, "decoder": layers}
    encoder = {
        "type": "recurrent",
        "rnn_type": size["cell"],
        "embeddings": embeddings,
        "hidden_size": size["encoder"],
        "bidirectional": True,
        "num_layers": 1,
        "dropout": dropout,
    }
    decoder = {
        "type": "recurrent",
        "rnn_type": size["cell"],
        "embeddings": embeddings,
        "hidden_size": size["decoder"],
        "num_layers": 1,
        "dropout": dropout,
        "hidden_dropout": dropout,
        "input_feeding": True,
        "init_hidden": "last" if size["decoder"] == 2 * size["encoder"] else "bridge",
        "attention": "luong" if task["model"].endswith("general") else "bahdanau",
    }
    return {"tied_embeddings": False, "tied_softmax": False, "encoder": encoder, "decoder": decoder}


def train(boss: Boss, task: Task) -> None:
    """Train by Joey's own `train`, counting on the way."""
    training = toolkit("joeynmt.training")
    manager = training.TrainManager
    seen = SimpleNamespace(model=None)
    step = manager._train_step
    meter = Meter(boss, task, lambda: seen.model, toolkit("importlib.metadata").version("joeynmt"))

    def counted(self: Any, batch: Any) -> Any:
        seen.model = self.model
        meter.saw(int(batch.ntokens), batch.trg.numel())
        return step(self, batch)

    manager._train_step = counted
    Path(task["folder"]).mkdir(parents=True, exist_ok=True)
    training.train(rank=0, world_size=1, cfg=settings(task), skip_test=True)


def ours(model: Any, task: Task) -> Any:
    """Put into Joey's network what ours has besides, before our weights are read (to_joey.py)."""
    import torch

    output = model.decoder.output_layer
    output.bias = torch.nn.Parameter(torch.zeros(output.out_features))
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = EPSILON
    if task["model"] != "transformer":
        start_backwards(model, task["size"])
    return model


def start_backwards(model: Any, size: dict[str, int]) -> None:
    """Let the LSTM's decoder start from the last state and the last cell of the encoder's backward direction."""
    import torch

    maps = torch.nn.ModuleList(torch.nn.Linear(size["encoder"], size["decoder"]) for _ in range(2))

    def backward(_: Any, __: Any, found: Any) -> Any:
        # Joey's encoder hands on the states of both directions side by side, and no cell: it gets these two instead.
        output, (states, cells) = found
        return output, (torch.stack([states[1], cells[1]]), cells)

    def begun(last: Any) -> tuple[Any, ...]:
        return tuple(torch.tanh(own(half)).unsqueeze(0) for own, half in zip(maps, last.chunk(2, dim=-1), strict=True))

    model.encoder.rnn.register_forward_hook(backward)
    model.decoder.start, model.decoder._init_hidden = maps, begun


def decode(boss: Boss, task: Task) -> None:
    """Translate by Joey's own `predict`, with regard's weights."""
    config, prediction = toolkit("joeynmt.config"), toolkit("joeynmt.prediction")
    cfg = settings(task)
    args = config.parse_global_args(cfg, rank=0, mode="translate")
    checkpoint = Path(task["folder"]) / "latest.ckpt"
    args = args._replace(test=args.test._replace(load_model=checkpoint))
    build = prediction.build_model
    prediction.build_model = lambda *given, **named: ours(build(*given, **named), task)
    model, _, _, data = prediction.prepare(args, rank=0, mode="translate")

    def translate(lines: Sequence[str], beam: int) -> list[list[str]]:
        for line in lines:
            data.set_item(line)
        longest, alpha = task["longest"], task["length_penalty"]
        search = args.test._replace(beam_size=beam, beam_alpha=alpha, max_output_length=longest, generate_unk=False)
        found = prediction.predict(
            model=model,
            data=data,
            device=args.device,
            n_gpu=args.n_gpu,
            compute_loss=False,
            normalization="none",
            num_workers=0,
            args=search,
            autocast=args.autocast,
        )
        data.reset_cache()
        return [[piece for piece in pieces if piece != "</s>"] for pieces in found[3]]

    parameters = sum(p.numel() for p in model.parameters())
    serve(boss, translate, version=toolkit("importlib.metadata").version("joeynmt"), parameters=parameters)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    threads(given)
    {"train": train, "decode": decode}[given["work"]](Boss(), given)
