"""Scenes as question sets, and a short training loop: what tests and trials of answerers share."""

import time
from collections.abc import Callable

import numpy as np
import torch

from regard.data.batching import PICTURE
from regard.data.scenes import ANSWERS, QUESTION_KINDS, generate, on_grid
from regard.tasks.visual_questions.training import draw_order
from regard.vision.questions.base import Answerer
from regard.vision.questions.batch import Question, QuestionSet
from regard.vision.questions.question_words import QuestionWords
from regard.vision.questions.scoring import question_loss

LEAST = 0.1
"""How much of a cell a thing must cover to lie in it."""


def scene_questions(
    split, size, pixels=32, side=0, words=None, kinds=QUESTION_KINDS
) -> tuple[QuestionSet, QuestionWords]:
    """Paint scenes, and ask all their questions of some kinds; with a `side` of cells, gold cells are told."""
    images, asked = [], []
    for scene in generate(split, size, pixels=pixels):
        images.append(scene.painting.image)
        there = on_grid(scene.painting.masks, side).reshape(len(scene.things), -1) >= LEAST if side else None
        asked.append([])
        for question in (one for one in scene.questions if one.kind in kinds):
            gold = None if there is None else there[list(question.things)].any(axis=0)
            asked[-1].append(Question(question.text, question.answer, question.kind, question.held_out, gold))
    words = words or QuestionWords.of(question.text for some in asked for question in some)
    return QuestionSet.of(np.stack(images), asked, words, ANSWERS, QUESTION_KINDS), words


def train_questions(
    model: Answerer,
    material: QuestionSet,
    *,
    seconds: float = 1e9,
    steps: int = 1 << 30,
    pictures: int = 32,
    rate: float = 1e-3,
    warmup: int = 100,
    device: str = "cpu",
    tell: Callable[[int, float, float], None] = lambda step, loss, right: None,
    every: int = 100,
    each: int = 2,
) -> int:
    """Train by Adam with a cosine over the seconds of a core, or the steps, that there are; returns the steps taken."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, betas=(0.9, 0.98))
    model.train()
    begun, step, epoch = time.process_time(), 0, 0
    loss = right = count = 0.0
    while True:
        for rows in draw_order(material, pictures * PICTURE, each, seed=1, epoch=epoch):
            batch = material.chosen(rows, each)
            done = max((time.process_time() - begun) / seconds, step / steps)
            if done >= 1:
                return step
            for group in optimizer.param_groups:
                group["lr"] = rate * min((step + 1) / warmup, 0.5 + 0.5 * np.cos(np.pi * done))
            here = batch.to(device)
            total, given, _ = question_loss(model, here)
            optimizer.zero_grad()
            (total / batch.count).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss, right, count = loss + total.item(), right + given.item(), count + batch.count
            step += 1
            if step % every == 0:
                tell(step, loss / count, right / count)
                loss = right = count = 0.0
        epoch += 1
