"""All there is to say about a captioner and a source of pictures."""

from collections.abc import Sequence
from dataclasses import replace

from regard.config import DecodingConfig
from regard.data.picture_cache import read_pictures
from regard.data.pictures import Pictures, ScenePictures
from regard.decoding.search import in_words
from regard.errors import ConfigError, DataError
from regard.evaluation.alignment_error_rate import Reading
from regard.evaluation.bleu_chrf import bleu_of_captions
from regard.evaluation.error_rates import exact_match
from regard.evaluation.report import Report, Score
from regard.tasks.captioning.pointing_game import PARTS, ScenePointing
from regard.tasks.captioning.predictor import CaptionPredictor

CHUNK = 256
"""Pictures that are held at a time."""
ORDERS = (4, 3, 2, 1)


def evaluate_captions(
    predictor: CaptionPredictor,
    pictures: Pictures,
    *,
    beam: int | None = None,
    options: DecodingConfig | None = None,
    batch_size: int | None = None,
    reading: Reading | None = None,
) -> Report:
    """Describe pictures and compare with all that is said of them: BLEU of 1 to 4 words, and captions that are right.

    Of scenes it is also told whether the model looks at what it writes of, while it is made to write all their captions
    and in its own, and all of that for scenes with familiar and with held-out combinations apart; `reading` says whose
    looks count, and which step's.
    """
    pictures.require("captions")
    if not len(pictures):
        raise DataError(f"{pictures.name} has no pictures, so there is nothing to evaluate.")
    options = options or predictor.options
    options = options if beam is None else replace(options, beam=beam)
    scenes = pictures if isinstance(pictures, ScenePictures) else None
    if reading is not None and scenes is None:
        raise ConfigError(f"Leave out --layer, --head and --shift: {pictures.name} does not tell where to look.")
    if reading is not None and predictor.config.model.attention is None:
        raise ConfigError("Leave out --layer, --head and --shift: this model has no attention to be scored.")
    texts, references, held_out = list[str](), list[tuple[str, ...]](), list[bool]()
    pointed = ScenePointing(reading)
    for start in range(0, len(pictures), CHUNK):
        rows = range(start, min(start + CHUNK, len(pictures)))
        some, said = read_pictures(pictures, rows), [pictures.captions(row) for row in rows]
        described = predictor.caption(some, options=options, batch_size=batch_size, look=scenes is not None)
        texts += [one.text for one in described]
        references += said
        if scenes is not None:
            for row, own, given in zip(rows, described, predictor.align(some, said, batch_size), strict=True):
                scene = scenes.scene(row)
                held_out.append(scene.held_out)
                pointed.add(scene, given, own)
    scores = [*_overlap(texts, references), *pointed.scores()]
    for part in PARTS:
        kept = [row for row, new in enumerate(held_out) if PARTS[new] == part]
        if kept:
            overlap = _overlap([texts[row] for row in kept], [references[row] for row in kept], (4,))
            both = (*overlap, *pointed.scores(part))
            scores += [replace(score, name=f"{score.name} {part}", partial=True) for score in both]
    return Report(pictures.name, len(texts), in_words(options), tuple(scores), (), "", tuple(texts), "pictures")


def _overlap(
    texts: Sequence[str], references: Sequence[tuple[str, ...]], orders: Sequence[int] = ORDERS
) -> list[Score]:
    scores = [bleu_of_captions(texts, references, order) for order in orders]
    return [*scores, exact_match(texts, references)]
