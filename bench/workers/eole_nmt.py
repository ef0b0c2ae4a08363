"""eole: trains and translates by its own loop, its own batches and its own search."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from talk import Boss, Meter, Task, serve, threads, toolkit

NEVER = 10**9


def settings(task: Task) -> dict[str, Any]:
    """Say in eole's terms what is to be trained, and on what."""
    data = Path(task["data"])
    return {
        "data": {"train": {"path_src": str(data / "train.bpe.en"), "path_tgt": str(data / "train.bpe.de")}},
        "src_vocab": str(data / "words.tsv"),
        "tgt_vocab": str(data / "words.tsv"),
        "share_vocab": True,
        "vocab_size_multiple": 1,
        "seed": task["seed"],
        "report_every": 100,
        "training": {
            "model_path": task["folder"],
            "optim": "adam",
            "learning_rate": task["rate"],
            "max_grad_norm": 1.0,
            "normalization": "tokens",
            "batch_type": "sents",
            "batch_size": task["batch"],
            # Batches made ahead in other processes would be made while this one waits for its turn, off the clock.
            "num_workers": 0,
            "bucket_size": 30000,
            "train_steps": task["steps"] or NEVER,
            "save_checkpoint_steps": task["steps"] or NEVER,
            "valid_steps": NEVER,
            "dropout": [task["dropout"]],
            "attention_dropout": [task["dropout"]],
            "compute_dtype": "fp32",
        },
        "model": network(task),
    }


def network(task: Task) -> dict[str, Any]:
    """Say which network."""
    size = task["size"]
    if task["model"] == "transformer":
        return {
            "architecture": "transformer",
            "layers": size["layers"],
            "heads": size["heads"],
            "hidden_size": size["width"],
            "transformer_ff": size["feed_forward"],
            "add_ffnbias": True,
            "add_qkvbias": True,
            "add_final_linear_bias": True,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {"word_vec_size": size["width"], "position_encoding_type": "SinusoidalInterleaved"},
        }
    return {
        "architecture": "custom",
        "input_feed": 1,
        "embeddings": {"word_vec_size": size["embedding"]},
        "encoder": {
            "encoder_type": "brnn",
            "rnn_type": size["cell"].upper(),
            "layers": 1,
            "hidden_size": 2 * size["encoder"],
        },
        "decoder": {
            "decoder_type": "rnn",
            "rnn_type": size["cell"].upper(),
            "layers": 1,
            "hidden_size": size["decoder"],
            "global_attention": "general" if task["model"].endswith("general") else "mlp",
        },
    }


def train(boss: Boss, task: Task) -> None:
    """Train by eole's own `train`, counting on the way."""
    command, trainer = toolkit("eole.bin.run.train"), toolkit("eole.trainer").Trainer
    seen = SimpleNamespace(model=None)
    step = trainer._process_accumulated_batches
    meter = Meter(boss, task, lambda: seen.model, toolkit("importlib.metadata").version("eole"))

    def counted(self: Any, batches: Any, *rest: Any) -> Any:
        seen.model = self.model
        for batch in batches:
            target = batch["tgt"][:, 1:]
            meter.saw(int(target.ne(self.train_loss.padding_idx).sum()), target.numel())
        return step(self, batches, *rest)

    trainer._process_accumulated_batches = counted
    command.train(toolkit("eole.config.run").TrainConfig(**settings(task)))


def decode(boss: Boss, task: Task) -> None:
    """Translate by eole's own engine."""
    engine, config = toolkit("eole.inference_engine"), toolkit("eole.config.run")
    engines = {}
    for beam in (1, task["beam"]):
        options = config.PredictConfig(
            model_path=[str(Path(task["folder"]) / f"step_{task['trained']}")],
            src="none",
            beam_size=beam,
            batch_type="sents",
            batch_size=task["batch"],
            max_length=task["longest"],
            length_penalty="wu",
            alpha=task["length_penalty"],
            compute_dtype="fp32",
        )
        engines[beam] = engine.InferenceEnginePY(options)

    def translate(lines: Sequence[str], beam: int) -> list[list[str]]:
        _, _, found = engines[beam].infer_list(list(lines))
        return [best[0].split() for best in found]

    network = engines[1].predictor.model
    about = {"version": toolkit("importlib.metadata").version("eole"), "torch": toolkit("torch").__version__}
    serve(boss, translate, parameters=sum(p.numel() for p in network.parameters()), **about)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    threads(given)
    {"train": train, "decode": decode}[given["work"]](Boss(), given)
