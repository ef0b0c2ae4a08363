"""From what a search found for an image to a trace that can be laid over it."""

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import DecodingConfig
from regard.data.tokenizers import Tokenizer
from regard.data.vocabulary import BOS, EOS
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import search
from regard.decoding.translator import banned_tokens
from regard.vision.captioner import Captioner
from regard.vision.pixels import from_pixels
from regard.vision.positions import Grid
from regard.viz.overlay import ImageTrace, cell_names
from regard.viz.trace import SPECIAL, AttentionTrace


def look_at(
    model: Captioner,
    image: NDArray[np.uint8],
    tokenizer: Tokenizer,
    options: DecodingConfig,
    *,
    shown: NDArray[np.uint8] | None = None,
    candidates: int = 5,
) -> ImageTrace:
    """Let a captioner write about one image, and tell where it looked at each word.

    `image` is as the model reads it: uint8, height × width × channels. `shown` is what to lay the attention over, if
    another: the same part of the image in more pixels, say.
    """
    device = next(model.parameters()).device
    with torch.inference_mode():
        seen = model.see(from_pixels(torch.from_numpy(np.ascontiguousarray(image))[None]).to(device), look=False)
        (best, *_) = search(
            model.decoder,
            seen.encoded,
            options,
            bos=BOS,
            eos=EOS,
            banned=banned_tokens(tokenizer),
            candidates=candidates,
        )[0]
    return over_image(best, image if shown is None else shown, tokenizer, grid=seen.grid)


def over_image(
    hypothesis: Hypothesis,
    image: NDArray[np.uint8],
    tokenizer: Tokenizer,
    *,
    grid: Grid | None = None,
    boxes: NDArray[np.float32] | None = None,
) -> ImageTrace:
    """Lay a hypothesis over the image that it is of: `grid` is the encoder's, or `boxes` are the regions'."""
    weights = hypothesis.weights.permute(1, 2, 0, 3).float().numpy()
    regions = weights.shape[-1]
    trace = AttentionTrace(
        source=cell_names(grid) if grid else tuple(f"box {number}" for number in range(1, regions + 1)),
        target=tuple(tokenizer.pieces(hypothesis.tokens)),
        weights=weights,
        log_probs=tuple(hypothesis.log_probs),
        score=hypothesis.score,
        candidates=tuple(
            tuple((tokenizer.pieces([token])[0], probability) for token, probability in step)
            for step in hypothesis.candidates
        ),
        target_words=tuple(tokenizer.words(hypothesis.tokens)),
        special=SPECIAL,
    )
    return ImageTrace(trace, image, grid, boxes)
