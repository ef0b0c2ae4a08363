"""Check a source of pictures: statistics and problems. Every picture is read, as in training."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from regard.data.caption_files import CaptionedImages
from regard.data.pictures import Pictures
from regard.data.region_features import Regions, counted
from regard.errors import DataError

_SHOWN = 5
"""The number of problems listed; the rest is only counted."""


def summary(pictures: Pictures, size: int | None = None) -> str:
    """Summarise the first `size` pictures, or all; raise a DataError that lists the first unusable ones."""
    places = range(len(pictures) if size is None else min(size, len(pictures)))
    if not places:
        raise DataError(f"{pictures.name} is empty: there is nothing to learn from.")
    read = _of_images(pictures, places) if "image" in pictures.has else _of_regions(pictures, places)
    lines = [f"{pictures.name}: {counted(len(places), 'picture')}", read]
    if isinstance(pictures, CaptionedImages) and pictures.unsaid:
        lines.append(f"without a caption, and left out: {counted(pictures.unsaid, 'image')}")
    if "captions" in pictures.has:
        lines.append(_of_captions([pictures.captions(place) for place in places]))
    if "label" in pictures.has:
        classes = Counter(pictures.labels[pictures.label(place)] for place in places)
        lines.append(f"classes: {', '.join(f'{name} {classes[name]:,}' for name in pictures.labels)}")
    return "\n  ".join(lines)


def caption_rows(pictures: Pictures, size: int | None = None) -> Iterator[str]:
    """Yield captions in Flickr8k's format: name.jpg#0 TAB caption."""
    if "captions" not in pictures.has:
        raise DataError(f"{pictures.name} has no captions to print: --check shows what it has.")
    for place, captions in enumerate(islice(pictures.every("captions"), size)):
        for number, caption in enumerate(captions):
            yield f"{pictures.called(place)}#{number}\t{' '.join(caption.split())}"


def _of_images(pictures: Pictures, places: Sequence[int]) -> str:
    sizes, problems = set[tuple[int, int]](), list[str]()
    for place in places:
        try:
            image = pictures.whole(place) if isinstance(pictures, CaptionedImages) else pictures.image(place)
            sizes.add((image.shape[1], image.shape[0]))
        except DataError as error:
            problems.append(str(error))
    _refuse(pictures.name, problems, len(places))
    told = [f"{width:,} × {height:,}" for width, height in sorted(sizes, key=lambda size: (size[0] * size[1], size))]
    across = told[0] if len(told) == 1 else f"{told[0]} to {told[-1]}"
    square = "; the largest square in the middle is read" if any(width != height for width, height in sizes) else ""
    return f"images: {across} pixels, {'grey' if pictures.channels == 1 else 'coloured'}{square}"


def _of_regions(pictures: Pictures, places: Sequence[int]) -> str:
    names = Counter(map(pictures.called, places))
    problems = [f"{name} occurs {count} times: names must differ." for name, count in names.items() if count > 1]
    unusable = (place for place in places if not np.isfinite(pictures.regions(place)).all())
    problems += [f"{pictures.called(place)} has features that are infinite or NaN." for place in unusable]
    _refuse(pictures.name, problems, len(places))
    count, width = pictures.regions(0).shape
    seen = sum(map(pictures.can_be_seen, places)) if isinstance(pictures, Regions) else 0
    shown = f"; {counted(seen, 'thumbnail')}" if seen else ""
    return f"regions: {count:,} of each picture, {counted(width, 'feature')} each{shown}"


def _of_captions(captions: Sequence[Sequence[str]]) -> str:
    said = [caption.split() for each in captions for caption in each]
    fewest, most = (limit(map(len, captions)) for limit in (min, max))
    each = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    words, longest = sum(map(len, said)), max(map(len, said))
    return (
        f"captions: {len(said):,}, {each} of each picture, {words / len(said):.1f} words each, at most {longest:,}; "
        f"{len({word for caption in said for word in caption}):,} different words"
    )


def _refuse(name: str, problems: Sequence[str], count: int) -> None:
    if len({*problems}) == 1:
        raise DataError(problems[0] if name in problems[0] else f"{name}: {problems[0]}")
    if problems:
        more = [f"… and {len(problems) - _SHOWN:,} more"] if len(problems) > _SHOWN else []
        told = "\n  ".join([*problems[:_SHOWN], *more])
        raise DataError(f"{name}: {len(problems):,} problems with {counted(count, 'picture')}:\n  {told}")
