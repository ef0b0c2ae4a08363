"""Hugging Face's Marian, a model without a loop: it gets the plainest one there is.

Its Trainer would add work of its own. Batches are of sentences of like length, as a careful user would make them.
"""

import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from talk import Boss, Meter, Task, serve, threads, toolkit

PAD, EOS, MARKS = 0, 3, 4
WARM = 400
"""Steps of warm-up, to half the rate of the others: with its norms last, it learns nothing at all of it at once."""


def words(task: Task) -> list[str]:
    """Return the vocabulary, the marks first."""
    lines = (Path(task["data"]) / "words.txt").read_text(encoding="utf-8").split("\n")[:-1]
    return ["<pad>", "<unk>", "<s>", "</s>", *lines]


def read(path: Path, numbers: dict[str, int]) -> list[list[int]]:
    """Read pieces as numbers, the end mark last."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [[*(numbers[piece] for piece in line.split(" ") if piece), EOS] for line in lines]


def padded(rows: Sequence[Sequence[int]], value: int) -> Any:
    """Make a tensor of rows."""
    longest = max(map(len, rows))
    return toolkit("torch").tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def network(task: Task) -> Any:
    """Make the model."""
    transformers, size = toolkit("transformers"), task["size"]
    layers = {"layers": size["layers"], "attention_heads": size["heads"], "ffn_dim": size["feed_forward"]}
    config = transformers.MarianConfig(
        vocab_size=len(words(task)),
        d_model=size["width"],
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in layers.items()},
        dropout=task["dropout"],
        attention_dropout=task["dropout"],
        activation_dropout=0.0,
        activation_function="relu",
        max_position_embeddings=256,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=2,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
    )
    return transformers.MarianMTModel(config)


def batches(task: Task) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Yield batches of pairs of like length, in random order, without end."""
    numbers = {word: number for number, word in enumerate(words(task))}
    sides = [read(Path(task["data"]) / f"train.bpe.{language}", numbers) for language in ("en", "de")]
    pairs = list(zip(*sides, strict=True))
    draw = random.Random(task["seed"])
    while True:
        draw.shuffle(pairs)
        pairs.sort(key=lambda pair: (len(pair[1]), len(pair[0])))
        every = [pairs[start : start + task["batch"]] for start in range(0, len(pairs), task["batch"])]
        draw.shuffle(every)
        yield from every


def train(boss: Boss, task: Task) -> None:
    """Train."""
    torch = toolkit("torch")
    torch.manual_seed(task["seed"])
    model = network(task)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=task["rate"])
    meter = Meter(boss, task, lambda: model, toolkit("transformers").__version__)
    for number, batch in enumerate(batches(task), start=1):
        optimizer.param_groups[0]["lr"] = task["rate"] / 2 * min(1.0, number / WARM)
        source, target = padded([pair[0] for pair in batch], PAD), padded([pair[1] for pair in batch], -100)
        meter.saw(sum(len(pair[1]) for pair in batch), target.numel())
        optimizer.zero_grad(set_to_none=True)
        model(input_ids=source, attention_mask=source != PAD, labels=target).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if number == task["steps"]:
            model.save_pretrained(task["folder"])
            return


def decode(boss: Boss, task: Task) -> None:
    """Translate by its own `generate`."""
    torch, transformers = toolkit("torch"), toolkit("transformers")
    model = transformers.MarianMTModel.from_pretrained(task["folder"]).eval()
    vocabulary = words(task)
    numbers = {word: number for number, word in enumerate(vocabulary)}

    def translate(lines: Sequence[str], beam: int) -> list[list[str]]:
        encoded = [[*(numbers.get(piece, 1) for piece in line.split(" ") if piece), EOS] for line in lines]
        order = sorted(range(len(lines)), key=lambda row: -len(encoded[row]))
        found: dict[int, list[str]] = {}
        for start in range(0, len(order), task["batch"]):
            rows = order[start : start + task["batch"]]
            source = padded([encoded[row] for row in rows], PAD)
            with torch.inference_mode():
                made = model.generate(
                    input_ids=source,
                    attention_mask=source != PAD,
                    num_beams=beam,
                    do_sample=False,
                    max_new_tokens=task["longest"],
                    length_penalty=task["length_penalty"],
                )
            for row, ids in zip(rows, made.tolist(), strict=True):
                found[row] = [vocabulary[number] for number in ids if number not in (PAD, EOS)]
        return [found[row] for row in range(len(lines))]

    about = {"version": transformers.__version__, "torch": torch.__version__}
    serve(boss, translate, parameters=sum(p.numel() for p in model.parameters() if p.requires_grad), **about)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    threads(given)
    {"train": train, "decode": decode}[given["work"]](Boss(), given)
