"""From blocks of lines to the lines that `regard translate` prints for them."""

import json
from collections.abc import Iterator

from regard.batch.translate_options import Output, TranslateOptions, added
from regard.config_io import search_options
from regard.data.corpus import parse_object, text_of
from regard.decoding.line_reader import Lines
from regard.decoding.terminology.glossary import read_glossary
from regard.decoding.translated_pairs import PairRows
from regard.decoding.translation import Translation
from regard.decoding.translator import Translator
from regard.errors import ConfigError, DataError


class LineTranslator:
    """Translates blocks of lines, one after the other, in this process."""

    def __init__(self, options: TranslateOptions) -> None:
        self._options = options
        self._pairs = PairRows(options.reverse, options.tag) if options.pairs else None
        self._glossary = read_glossary(options.glossary) if options.glossary else None
        self._translator = Translator.load(options.models, options.device)
        own = self._translator.faster() if options.fast else self._translator.options
        self._search = search_options(own, options.settings)
        if options.pairs and not self.reads:
            raise ConfigError(
                f"{options.models[0]} is a language model, which continues texts: --pairs needs one that translates."
            )

    def __enter__(self) -> "LineTranslator":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def reads(self) -> bool:
        """Whether the model translates; a language model continues."""
        return self._translator.model.reads

    def translated(self, blocks: Iterator[Lines]) -> Iterator[Output]:
        """Yield what becomes of each block."""
        return map(self.translate, blocks)

    def translate(self, lines: Lines) -> Output:
        """Translate a block of lines, up to the first that cannot be."""
        texts, error = self._texts(lines)
        options = self._options
        found = self._translator.stream(
            texts,
            beam=options.beam,
            n_best=options.n_best,
            batch_size=options.batch,
            options=self._search,
            to=options.to,
            look=False,
            keep=options.keep,
            glossary=self._glossary,
        )
        before = self._pairs.left_out if self._pairs else 0
        rows = [
            row
            for place, (text, best) in enumerate(zip(texts, found, strict=True))
            for row in self._rows(lines.first + place, text, lines.texts[place], best)
        ]
        return Output(rows, self._pairs.left_out - before if self._pairs else 0, error)

    def _texts(self, lines: Lines) -> tuple[list[str], DataError | None]:
        """Return the texts to be translated, up to the first line that cannot be, and what is wrong with that."""
        texts: list[str] = []
        try:
            for number, line in enumerate(lines.texts, start=lines.first):
                texts.append(self._text(number, line))
        except DataError as error:
            return texts, error
        return texts, None

    def _text(self, number: int, line: str) -> str:
        if self._pairs is not None:
            self._pairs.check(number, line)
        if self._options.field is None:
            return line
        at, example = f"Line {number:,} of the input", f'{{"{self._options.field}": "…"}}'
        record = parse_object(line, at, example)
        text = text_of(record, self._options.field, at, example)
        taken = next((name for name in added(self._options.into, self._options.n_best) if name in record), None)
        if taken is not None:
            raise DataError(f'{at} has a "{taken}" already: write to another field (--into NAME).')
        return text

    def _rows(self, number: int, text: str, line: str, best: Translation) -> Iterator[str]:
        every = (best, *best.n_best)
        if self._options.field is not None:
            # What else the object has stays as it was written.
            rest = json.dumps(_fields(self._options.into, self._options.n_best, every), ensure_ascii=False)
            yield f"{line.rstrip()[:-1].rstrip()}, {rest[1:]}"
        elif self._pairs is not None:
            yield from self._pairs.rows(text, best)
        elif self._options.n_best == 1:
            yield best.text
        else:
            for one in every:
                yield f"{number}\t{one.score:.4f}\t{one.text.replace(chr(9), ' ')}"


def _fields(into: str, n_best: int, every: tuple[Translation, ...]) -> dict[str, object]:
    texts, scores = [one.text for one in every], [round(one.score, 4) for one in every]
    return dict(zip(added(into, n_best), (texts[0], scores[0], texts, scores), strict=False))
