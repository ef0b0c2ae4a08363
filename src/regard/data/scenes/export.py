"""Export scenes as text, and as a folder of PNG files with annotations."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from regard.data.scenes.questions import QUESTION_KINDS
from regard.data.scenes.scene import Scene
from regard.errors import DataError
from regard.viz.png import png


def name_of(scene: Scene) -> str:
    """Return the file name of a scene's picture, from its index."""
    return f"{scene.key[2]:06}.png"


def record(scene: Scene) -> dict[str, Any]:
    """Return all annotations of a scene but the masks, for JSON. Boxes are left, top, right, bottom."""
    return {
        "image": name_of(scene),
        "pixels": scene.pixels,
        "held_out": scene.held_out,
        "things": [
            {
                "size": thing.size,
                "colour": thing.colour,
                "texture": thing.texture,
                "shape": thing.shape,
                "box": box.tolist(),
                "within": thing.within,
            }
            for thing, box in zip(scene.things, scene.painting.boxes, strict=True)
        ],
        "captions": [{"text": caption.text, "things": caption.things} for caption in scene.captions],
        "questions": [
            {"kind": question.kind, "text": question.text, "answer": question.answer, "things": question.things}
            for question in scene.questions
        ],
    }


def caption_rows(scene: Scene) -> Iterator[str]:
    """Yield captions in Flickr8k's format: name.png#0 TAB caption."""
    return (f"{name_of(scene)}#{i}\t{caption.text}" for i, caption in enumerate(scene.captions))


def question_rows(scene: Scene) -> Iterator[str]:
    """Yield questions as TSV: name.png, kind, question, answer."""
    return (f"{name_of(scene)}\t{q.kind}\t{q.text}\t{q.answer}" for q in scene.questions)


def export(scenes: Iterable[Scene], folder: Path) -> int:
    """Write pictures as PNG, `captions.tsv`, `questions.tsv` and `scenes.jsonl` (all annotations) to a new folder.

    The folder can be read like any folder of images with captions. Returns the number of scenes.
    """
    count = 0
    try:
        folder.mkdir(parents=True)
        with ExitStack() as stack:
            texts = [stack.enter_context((folder / name).open("w", encoding="utf-8", newline="\n")) for name in _TEXTS]
            for scene in scenes:
                count += 1
                (folder / name_of(scene)).write_bytes(png(scene.painting.image))
                rows = caption_rows(scene), question_rows(scene), [to_json(scene)]
                for file, lines in zip(texts, rows, strict=True):
                    file.writelines(f"{line}\n" for line in lines)
    except FileExistsError:
        raise DataError(f"{folder} already exists: give the name of a new folder.") from None
    except OSError as error:
        raise DataError(f"Cannot write {folder}: {(error.strerror or str(error)).lower()}.") from None
    return count


_TEXTS = ("captions.tsv", "questions.tsv", "scenes.jsonl")


def to_json(scene: Scene) -> str:
    """Return a scene's record as one line of JSON."""
    return json.dumps(record(scene), ensure_ascii=False)


def summary(name: str, scenes: Iterable[Scene]) -> str:
    """Summarise scenes: numbers of things, captions and words, and the distribution of answers by kind of question."""
    counts: Counter[str] = Counter()
    answers: dict[str, Counter[str]] = {kind: Counter() for kind in QUESTION_KINDS}
    pixels = 0
    for scene in scenes:
        pixels = scene.pixels
        counts.update(scenes=1, held_out=scene.held_out, things=len(scene.things), captions=len(scene.captions))
        counts.update(words=sum(len(caption.words) for caption in scene.captions))
        for question in scene.questions:
            answers[question.kind][question.answer] += 1
    lines = [f"{name}: {counts['scenes']:,} scenes, {counts['held_out']:,} with a held-out combination"]
    lines.append(f"  images: {pixels} × {pixels} pixels, coloured")
    lines.append(f"  things: {counts['things']:,}")
    lines.append(f"  captions: {counts['captions']:,}, {counts['words'] / max(1, counts['captions']):.1f} words each")
    for kind, spread in answers.items():
        told = ", ".join(f"{answer} {number:,}" for answer, number in spread.most_common(8))
        lines.append(f"  {kind}: {spread.total():,} questions" + (f" ({told})" if told else ""))
    return "\n".join(lines)
