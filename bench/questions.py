"""Train a system on the questions of the embedded scenes and tell how much it answers, by kind: for a GPU, or patience.

    python bench/questions.py --system asker --minutes 8 --device cuda
    python bench/questions.py --system asker --without --minutes 8 --device cuda

Scenes are painted by all cores first. Every so often, and at the end, `valid` is answered; at the very end `test`. One
line of JSON at the end has all that is in the table.
"""

import argparse
import json
import queue
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import torch

from regard.data.scenes import ANSWERS, QUESTION_KINDS, generate, on_grid
from regard.vision.questions.base import Answerer
from regard.vision.questions.batch import Question, QuestionBatch, QuestionSet
from regard.vision.questions.build import build_answerer
from regard.vision.questions.scoring import question_loss, score_questions
from regard.vision.questions.systems import askers, blind_to_places
from regard.vision.questions.words import QuestionWords

PART = 500
LEAST = 0.1
"""How much of a cell a thing must cover to lie in it."""
Painted = tuple[list[np.ndarray], list[list[Question]]]


def paint(given: tuple[str, int, int, int, int]) -> Painted:
    """Paint some scenes, and ask their questions."""
    split, start, size, pixels, side = given
    images, asked = [], []
    for scene in generate(split, size, start=start, pixels=pixels):
        there = on_grid(scene.painting.masks, side).reshape(len(scene.things), -1) >= LEAST if side else None
        questions = []
        for one in scene.questions:
            gold = None if there is None else np.asarray(there[list(one.things)].any(axis=0))
            questions.append(Question(one.text, one.answer, one.kind, one.held_out, gold))
        if questions:
            images.append(scene.painting.image)
            asked.append(questions)
    return images, asked


def painted(split: str, size: int, pixels: int, side: int, workers: int) -> Painted:
    """Paint by several processes."""
    parts = [(split, start, min(PART, size - start), pixels, side) for start in range(0, size, PART)]
    with get_context("spawn").Pool(workers) as pool:
        done = pool.map(paint, parts)
    return [image for images, _ in done for image in images], [some for _, asked in done for some in asked]


def ahead(material: QuestionSet, pictures: int, each: int, seed: int, pin: bool) -> Iterator[QuestionBatch]:
    """Put batches together in a thread, without end."""
    ready: queue.Queue[QuestionBatch] = queue.Queue(maxsize=8)

    def work() -> None:
        epoch = 0
        while True:
            for batch in material.batches(pictures, seed, epoch, each):
                ready.put(batch.pinned() if pin else batch)
            epoch += 1

    threading.Thread(target=work, daemon=True).start()
    while True:
        yield ready.get()


def main() -> None:
    """Read the options, train, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", default="asker", choices=list(askers))
    parser.add_argument("--without", action="store_true", help="take all attention to the image away")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--shared", action="store_true", help="cross: one layer's weights for all")
    parser.add_argument("--positions", default="", help="cross: of words, such as rotary")
    parser.add_argument("--minutes", type=float, default=8.0, help="of training")
    parser.add_argument("--scenes", type=int, default=80_000)
    parser.add_argument("--held", type=int, default=2_000, help="scenes of valid, and of test")
    parser.add_argument("--pixels", type=int, default=0, help="0 for what the system is made for")
    parser.add_argument("--pictures", type=int, default=128, help="in a batch")
    parser.add_argument("--each", type=int, default=8, help="questions about each picture of a batch")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--every", type=float, default=1.0, help="minutes between two looks at valid")
    parser.add_argument("--save", default="", help="where to write the weights (safetensors)")
    options = parser.parse_args()
    run(options)


def run(options: argparse.Namespace) -> None:
    """Train for so many minutes, by a cosine over them."""
    system = askers[options.system]()
    system = blind_to_places(system) if options.without else system
    model_config = replace(system[0], dropout=options.dropout, positions=options.positions or system[0].positions)
    system = model_config, replace(system[1], shared=options.shared)
    image, device = system[0].image, torch.device(options.device)
    assert image is not None
    pixels = options.pixels or image.size
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    begun = time.monotonic()
    images, asked = painted("train", options.scenes, pixels, 0, options.workers)
    words = QuestionWords.of(one.text for some in asked for one in some)
    material = QuestionSet(images, asked, words, ANSWERS, QUESTION_KINDS)
    model = build_answerer(*system, len(words), len(ANSWERS)).to(device)
    side = model.encoder.stem(torch.zeros(1, image.channels, pixels, pixels, device=device), None).grid[0]
    held = {
        split: QuestionSet(*painted(split, options.held, pixels, side, options.workers), words, ANSWERS, QUESTION_KINDS)
        for split in ("valid", "test")
    }
    weights = sum(p.numel() for p in model.parameters())
    tell(
        f"{options.system}: {weights:,} weights; {material.count:,} questions about {len(material):,} scenes of "
        f"{pixels} pixels, {time.monotonic() - begun:.0f} s to paint"
    )
    steps = train(model, material, held["valid"], options, device)
    for split, some in held.items():
        scores = score_questions(model, some.batches(100), QUESTION_KINDS, device)
        tell(f"{split}\n{scores.table()}")
        found = {name: round(value, 5) for name, value in scores.summary().items()}
        print(json.dumps({**vars(options), "split": split, "weights": weights, "steps": steps, **found}), flush=True)
    if options.save:
        from safetensors.torch import save_file

        save_file(model.state_dict(), options.save)


def train(
    model: Answerer, material: QuestionSet, valid: QuestionSet, options: argparse.Namespace, device: torch.device
) -> int:
    """Take steps until the time is over; return how many."""
    fused = device.type == "cuda"
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=options.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=fused
    )
    batches = ahead(material, options.pictures, options.each, options.seed, pin=fused)
    seconds, begun, last, spent = options.minutes * 60, time.monotonic(), time.monotonic(), 0.0
    sums, count, step = torch.zeros(2, device=device), 0, 0
    model.train()
    while (done := (time.monotonic() - begun - spent) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = options.rate * min((step + 1) / options.warmup, 0.5 + 0.5 * float(np.cos(np.pi * done)))
        batch = next(batches).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=fused):
            made = question_loss(model, batch)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(made.total / batch.count)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        sums += torch.stack([made.loss, made.beside["right"].float()])
        count, step = count + batch.count, step + 1
        if time.monotonic() - last > options.every * 60:
            started = time.monotonic()
            loss, right = (sums / count).tolist()
            scores = score_questions(model, valid.batches(100), QUESTION_KINDS, device)
            kinds = " ".join(f"{kind} {100 * scores.accuracy(kind, True).value:.1f}" for kind in QUESTION_KINDS)
            tell(
                f"step {step:,}, {(started - begun - spent) / 60:.1f} min: loss {loss:.4f}, right {100 * right:.2f}; "
                f"valid {100 * scores.accuracy().value:.2f}, "
                f"held out {100 * scores.accuracy(None, True).value:.2f} ({kinds})"
            )
            sums.zero_()
            count, last = 0, time.monotonic()
            spent += last - started
    return step


def tell(text: str) -> None:
    """Say how it goes."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
