"""The Translator: a model and its tokenizers, to translate, score and align text."""

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention.weight_hooks import is_hooked
from regard.config import DataConfig, DecodingConfig
from regard.data.batching import pad_sources
from regard.data.pair import Pair, as_pair
from regard.data.special_tokens import BOS, EOS, PAD, UNK
from regard.data.tokenizers import Tokenizers
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.characters_and_words import Plain
from regard.data.tokenizers.tagged_tokenizer import Tagged, without_tag
from regard.decoding.batching import BATCH, batch_size_for, batches, groups
from regard.decoding.beam_search import Beam
from regard.decoding.cuda_graph_search import SearchGraphs
from regard.decoding.ensemble import Ensemble
from regard.decoding.hypothesis import End, Hypothesis
from regard.decoding.model_loading import open_folders
from regard.decoding.native_search import Engines, in_threads, search_natively
from regard.decoding.posterior_attention import explain
from regard.decoding.sampling import key
from regard.decoding.search import DecodingRequest, check_options, search_for
from regard.decoding.search_loop import steps
from regard.decoding.teacher_forcing import force
from regard.decoding.terminology.required_terms import Glossary, Held, RequiredTerms
from regard.decoding.token_limits import Rules, limit
from regard.decoding.translation import Read, Translation, copy_unknown, nothing, on_one_line, replace_unknown, trace_of
from regard.decoding.vocabulary_shortlist import MANY, SHORTLIST, Shortlist
from regard.errors import ConfigError, DataError, ModelError
from regard.models.inference_mode import inference_mode
from regard.models.protocol import Decoder, Encoded
from regard.models.seq2seq import Seq2Seq
from regard.native.decoder import Engine
from regard.shapes import Tensor
from regard.viz.trace import SPECIAL, AttentionTrace

if TYPE_CHECKING:
    from regard.decoding.attribution import Attribution
    from regard.decoding.editing import Editable, EditedTranslation
    from regard.decoding.edits import Edit
    from regard.decoding.search_tree import SearchTree
    from regard.decoding.self_attention import SelfAttention
    from regard.decoding.step_explanation import StepExplanation

logger = logging.getLogger("regard")

Forcing = Callable[[Decoder[Any], Encoded, Sequence[Sequence[int]]], list[tuple[list[float], Tensor]]]
"""Runs a decoder over given tokens: `force` or `explain`."""
SPELLING = ("characters", "spelled")
"""Character-level tokenizers, whose unknown characters can be replaced if both sides have them."""
LISTED = 32
"""Shortlist size per source word in a fast search."""


class Translator:
    """A trained model, or an ensemble, ready for use. It does not change the model, and is deterministic.

    A model without a source is a language model: instead of translating a text, it continues it.
    """

    def __init__(
        self,
        model: Seq2Seq | Ensemble,
        tokenizers: Tokenizers,
        options: DecodingConfig | None = None,
        longest: int = 0,
        shortlist: Shortlist | None = None,
    ) -> None:
        """`longest` is the maximum length, in tokens, of the training texts: longer ones get a warning."""
        self.model = model
        self.tokenizers = tokenizers
        self.options = options or DecodingConfig()
        self.longest = longest
        self.shortlist = shortlist
        self._engines = Engines()
        self._graphs = SearchGraphs()
        self._most_read = model.most_read if model.reads else None
        self._copies = model.decoder.copies

    @classmethod
    def load(cls, folder: str | Path | Sequence[str | Path], device: str = "cpu") -> "Translator":
        """Load a model folder, or several with the same vocabularies as an ensemble, with the first one's options."""
        folders = [folder] if isinstance(folder, str | Path) else folder
        return cls(*open_folders([Path(each) for each in folders], device))

    @property
    def task(self) -> str:
        """What the model does: translation, or language_modelling where there is no source to read."""
        return "translation" if self.model.reads else "language_modelling"

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return next(self.model.parameters()).device

    @property
    def _replaces(self) -> bool:
        """Whether unknown tokens can be replaced: words, or characters if the source has characters too."""
        source, target = self.tokenizers.source.kind, self.tokenizers.target.kind
        return target == "words" or (target in SPELLING and source == target and self.model.reads)

    @property
    def members(self) -> int:
        """Number of models in the ensemble; 1 for a single model."""
        return len(self.model.members) if isinstance(self.model, Ensemble) else 1

    def faster(self) -> DecodingConfig:
        """Return the model's own options with everything that speeds up search at next to no loss."""
        shortlist = 0 if self.shortlist is None else LISTED
        own = self.options
        return replace(own, precision="int8", shortlist=own.shortlist or shortlist, patience=own.patience or 1.0)

    def decoder(self, options: DecodingConfig) -> Decoder[Any]:
        """Return the decoder; the options say how an ensemble is averaged."""
        return self.model.averaging(options.ensemble) if isinstance(self.model, Ensemble) else self.model.decoder

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        prefix: Sequence[str] | None = None,
        batch_size: int | None = None,
        candidates: int = 0,
        options: DecodingConfig | None = None,
        to: str | None = None,
        look: bool = True,
        posterior: bool = False,
        keep: str | None = None,
        glossary: Glossary | None = None,
    ) -> list[Translation]:
        """Translate texts; the result has one translation for each, in order.

        `options` default to the model's own; `beam` overrides them. Each translation starts with its `prefix` (an empty
        one leaves it free). With `candidates`, traces have that many of the most probable tokens at each step. `to` is
        the target language, for a multilingual model and texts without tags. A text of white space has an empty
        translation. With `look=False`, translations have no attention, which is faster; with `posterior` they have
        posterior attention, as in `align`, whatever `look` is. `batch_size` is the number of sentences searched at
        once; by default it depends on the device.

        Matches of the regular expression `keep` (by default `options.keep`) occur unchanged in the translation, as do
        the translations of terms in the `glossary`, a mapping or a file of lines `source TAB target`. Texts without any
        of these are searched as usual.

        A language model continues the texts instead, each of which is its own prefix; from an empty one it generates
        freely. Samples depend on `options.seed` and the text: to draw several, set `n_best`.
        """
        if isinstance(texts, str):
            raise DataError("translate takes a list of texts, got a single one: write translate([text]).")
        if prefix is not None and len(prefix) != len(texts):
            raise ConfigError(f"There are {len(texts)} texts but {len(prefix)} prefixes: give one for each.")
        options = options or self.options
        options = options if beam is None else replace(options, beam=beam)
        options = options if keep is None else replace(options, keep=keep)
        check_options(options, n_best, candidates)
        required = self._required_terms(options, glossary)
        texts = self.tokenizers.tag(self._trimmed(texts), to)
        sources, starts = self._encode_texts(texts, prefix)
        found = {row: nothing() for row, text in enumerate(texts) if self.model.reads and not text.strip()}
        rows = [row for row in range(len(texts)) if row not in found]
        replacing = options.replace_unknown and self._replaces
        look = look or posterior or replacing
        plain = [without_tag(text) for text in texts] if self.tokenizers.tags else texts
        every = {} if required is None else {row: required.of(plain[row]) for row in rows}
        held = {row: one for row, one in every.items() if one is not None}
        words = self._words(options.shortlist, sources, starts, held) if options.shortlist else None

        def read(batch: Sequence[int], reading: Callable[[Tensor, Tensor, Tensor], Encoded]) -> Encoded:
            source, mask = pad_sources([sources[row] for row in batch])
            return reading(source.to(self.device), mask.to(self.device), mask.sum(dim=1))

        def ask(batch: Sequence[int]) -> DecodingRequest:
            return DecodingRequest(
                BOS,
                EOS,
                self._banned(options),
                [starts[row] for row in batch],
                n_best,
                candidates,
                self._longest_written(),
                self.model.decoder.most,
                None if options.method == "beam" else [key(f"{sources[row]} {starts[row]}".encode()) for row in batch],
                self.tokenizers.target.decode,
                look or any(held[row].constraints.has_unknown for row in batch if row in held),
                None if words is None else [words[row] for row in batch],
                [held[row].constraints for row in batch] if held.keys() & batch else None,
            )

        most = self._longest_written()
        longest = max((limit(options, most, len(sources[row]), starts[row]) for row in rows), default=1)
        engine = None
        if not is_hooked():
            engine = self._engines.find(self.model, options, candidates, max([longest, *map(len, sources)]))
        batch_size = batch_size_for(self.device, options, n_best, batch_size)

        def write(group: Sequence[Sequence[int]], hypotheses: Sequence[Sequence[Hypothesis]]) -> Iterator[None]:
            for row, best in zip([row for batch in group for row in batch], hypotheses, strict=True):
                best = self._explained(sources[row], best, options) if posterior else best
                writes = None if required is None or row not in held else partial(required.write, held[row])
                found[row] = self._translation(texts[row], sources[row], best, replacing, look, posterior, writes)
                yield

        def begin(engine: Engine, threads: int, batch: Sequence[int]) -> Any:
            reading = engine.reading
            encode = self.model.encode if reading is None else partial(reading, threads=max(1, threads))
            return self.model.decoder.start(read(batch, encode))

        def work(rows: Sequence[int], natively: bool) -> list[list[list[int]]]:
            lengths = [max(len(sources[row]), 0 if self.model.reads else len(starts[row])) for row in rows]
            every = groups(lengths, batch_size, natively)
            return [[[rows[place] for place in batch] for batch in group] for group in every]

        writing: Iterator[None] = iter(())  # builds the last results, while a GPU searches the next
        free = [(engine, group) for group in work([row for row in rows if row not in held], engine is not None)]
        for engine, group in [*free, *((None, group) for group in work(list(held), natively=False))]:
            requests = [ask(batch) for batch in group]
            with inference_mode(self.model):
                if engine is None:
                    read_lengths = [len(sources[row]) for row in group[0]]
                    hypotheses = self._search(
                        read(group[0], self.model.encode), options, requests[0], read_lengths, writing
                    )
                else:
                    begun = in_threads(partial(begin, engine, torch.get_num_threads() // len(group)), group)
                    hypotheses = search_natively(engine, begun, options, requests)
            deque(writing, maxlen=0)
            writing = write(group, hypotheses)
        deque(writing, maxlen=0)
        return [found[row] for row in range(len(texts))]

    def drafts(
        self,
        text: str,
        *,
        beam: int | None = None,
        candidates: int = 0,
        options: DecodingConfig | None = None,
        to: str | None = None,
    ) -> Generator[Translation, None, None]:
        """Yield what the search of `translate` holds for best after each of its steps: a translation that is not done.

        By greedy search, each has one token more than the one before; with a larger beam, earlier tokens may change.
        There is none for an empty text, and for options whose search is not by steps: samples, and terms to keep.
        """
        options = options or self.options
        options = options if beam is None else replace(options, beam=beam)
        check_options(options, 1, candidates)
        (tagged,) = self.tokenizers.tag(self._trimmed([text]), to)
        if options.method != "beam" or options.keep or (self.model.reads and not tagged.strip()):
            return
        (source,), (start,) = self._encode_texts([tagged], None)
        replacing = options.replace_unknown and self._replaces
        target, most = self.tokenizers.target, (self._longest_written(), self.model.decoder.most)
        words = self._words(options.shortlist, [source], [start], {}) if options.shortlist else None
        banned = banned_tokens(target, replacing=replacing)
        request = DecodingRequest(BOS, EOS, banned, [start], 1, candidates, *most, None, target.decode, True, words)
        for hypothesis in islice(search_by_steps(self, source, options, request), len(start), None):
            yield self._translation(tagged, source, [hypothesis], replacing, True, False, None)

    def _search(
        self,
        encoded: Encoded,
        options: DecodingConfig,
        request: DecodingRequest,
        lengths: Sequence[int],
        meanwhile: Iterator[None],
    ) -> list[list[Hypothesis]]:
        """Search with CUDA graphs if there is a GPU and they support the search."""
        decoder, found = self.decoder(options), None
        if self.device.type == "cuda" and not is_hooked() and self._graphs.supports(options, request):
            found = self._graphs.search(decoder, encoded, options, request, lengths, meanwhile)
        return search_for(decoder, encoded, options, request) if found is None else found

    def _words(
        self, count: int, sources: Sequence[Sequence[int]], starts: Sequence[Sequence[int]], held: Mapping[int, Held]
    ) -> list[NDArray[np.int32]]:
        """Return the shortlist of each text."""
        if self.shortlist is None:
            size = self.tokenizers.target.size
            advice = "make one with regard train --out MODEL --resume, or set decoding.shortlist=0."
            if size < MANY or not self.model.reads:
                why = f"of {size:,} words a shortlist would save nothing" if self.model.reads else "it reads no source"
                advice = f"none was made, since {why}. Set decoding.shortlist=0."
            raise ModelError(
                f"decoding.shortlist needs a table of likely words, and the model folder has no {SHORTLIST}: " + advice
            )
        copied = self.model.decoder.copied_as
        forced = [held[row].constraints.tokens if row in held else () for row in range(len(sources))]
        return [
            self.shortlist.words(source, count, (EOS, *start, *copied(source), *own))
            for source, start, own in zip(sources, starts, forced, strict=True)
        ]

    def _required_terms(self, options: DecodingConfig, glossary: Glossary | None) -> RequiredTerms | None:
        """Return the terminology constraints; None if there are none."""
        if not options.keep and not glossary:
            return None
        if not self.model.reads:
            raise ConfigError("A language model has no source with terms to keep: leave out keep and glossary.")
        if self.tokenizers.target.kind == "spelled":
            raise ConfigError(
                "A model with tokenizer.kind=spelled cannot keep terms, since what a token adds to a text "
                "depends on the token before it: train with --set tokenizer.kind=bpe or characters, or leave out keep "
                "and glossary."
            )
        return RequiredTerms(self.tokenizers.target, options.keep, glossary)

    def stream(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        batch_size: int | None = None,
        candidates: int = 0,
        options: DecodingConfig | None = None,
        to: str | None = None,
        look: bool = True,
        read_ahead: int = 1024,
        keep: str | None = None,
        glossary: Glossary | None = None,
    ) -> Iterator[Translation]:
        """Yield one translation for each line, in order, reading at most `read_ahead` lines in advance.

        Each fits on one line: a line break inside a translation becomes a space.
        """
        if read_ahead < 1:
            raise ConfigError(f"read_ahead is {read_ahead}; it must be at least 1.")
        waiting = (line.rstrip("\r\n") for line in lines)
        while chunk := list(islice(waiting, read_ahead)):
            for translation in self.translate(
                chunk,
                beam=beam,
                n_best=n_best,
                batch_size=batch_size,
                candidates=candidates,
                options=options,
                to=to,
                look=look,
                keep=keep,
                glossary=glossary,
            ):
                yield on_one_line(translation)

    def score(
        self,
        pairs: Iterable[Pair | tuple[str, str]],
        batch_size: int | None = None,
        options: DecodingConfig | None = None,
    ) -> list[list[float]]:
        """Return the log-probability of each token of each target, the end token last, given those before it.

        `options`, by default the model's own, say how an ensemble is averaged.
        """
        sources, targets = self._encode_pairs([*map(as_pair, pairs)])
        forced = self._force(sources, targets, batch_size, partial(force, look=False), options)
        return [log_probs for log_probs, _ in forced]

    def align(
        self,
        pairs: Iterable[Pair | tuple[str, str]],
        batch_size: int | None = None,
        posterior: bool = False,
        options: DecodingConfig | None = None,
    ) -> list[AttentionTrace]:
        """Return the attention over each source with the given target forced; `options` as in `score`.

        `posterior` gives posterior attention, where each token came from given that token: attention weighted by the
        token's probability under each position alone. That takes one more step per source position.
        """
        self.check_source()
        sources, targets = self._encode_pairs([*map(as_pair, pairs)])
        run = explain if posterior else partial(force, look=True)
        forced = self._force(sources, targets, batch_size, run, options)
        written = (Hypothesis(target, sum(one[0]), *one) for target, one in zip(targets, forced, strict=True))
        return [
            trace_of(hypothesis, self._read(source), self.tokenizers.target, posterior=posterior)
            for source, hypothesis in zip(sources, written, strict=True)
        ]

    def edit(
        self,
        of: "Editable",
        edits: "Edit | Sequence[Edit]" = (),
        *,
        step: int | None = None,
        weights: Mapping[int, float] | Sequence[float] | None = None,
        layer: int | None = None,
        head: int | None = None,
        token: str | None = None,
        beam: int = 1,
        candidates: int = 0,
        to: str | None = None,
    ) -> "EditedTranslation":
        """Translate with edited attention: of a text, or of a translation or trace that this model made.

        `step` and `weights` set attention weights: those of some source positions, `{position: weight}`, where the
        others share the rest of the row, or a whole row; of one `layer` and `head`, or of all. `step` and `token` take
        another token there. For everything else, and for several edits at once, give `edits` (regard.decoding.edits).

        The tokens before the first edited step are kept, and decoding goes on from there, greedily unless `beam` is
        more than 1. The result knows all its edits, also those of an edited translation that it was made from.
        """
        from regard.decoding.editing import edit, edits_of

        asked = edits_of(of, edits, step, weights, layer, head, token)
        return edit(self, of, asked, beam=beam, candidates=candidates, to=to)

    def explain_step(self, of: Translation | AttentionTrace, step: int, candidates: int = 10) -> "StepExplanation":
        """Return the model's own numbers at one step: scores, mask, weights, the mix of values, and top tokens.

        The translation's tokens are forced, with its edits if it has any.
        """
        from regard.decoding.step_explanation import explain_step

        return explain_step(self, of, step, candidates)

    def search_tree(self, text: str, beam: int | None = None, to: str | None = None) -> "SearchTree":
        """Return all hypotheses of a beam search as a tree: those kept, pruned and finished."""
        from regard.decoding.search_tree import search_tree

        return search_tree(self, text, beam, to)

    def self_attention(self, of: Translation | AttentionTrace) -> "SelfAttention":
        """Return the self-attention of a Transformer's encoder and decoder; None for a side that has none.

        The translation's tokens are forced, with its edits if it has any.
        """
        from regard.decoding.self_attention import self_attention

        return self_attention(self, of)

    def attribution(self, of: Translation | AttentionTrace) -> "Attribution":
        """Return how much each source token matters for each target token, and whether the attention agrees."""
        from regard.decoding.attribution import attribution

        return attribution(self, of)

    def check_source(self) -> None:
        """Raise a ModelError for a model without a source."""
        if not self.model.reads:
            raise ModelError("This model has no attention to a source: it is a language model, which has none.")

    def _encode_texts(
        self, texts: Sequence[str], prefix: Sequence[str] | None
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return source ids and the prefix of each translation."""
        target = self.tokenizers.target
        if self.model.reads:
            return self._encode(texts), [[] for _ in texts] if prefix is None else target.encode_all(list(prefix))
        if prefix is not None and any(prefix):
            raise ConfigError("A language model continues the texts themselves: put the prefix there.")
        starts = self._encode(texts)
        return [[EOS] for _ in texts], [start[:-1] for start in starts]

    def _trimmed(self, texts: Sequence[str]) -> list[str]:
        """Strip texts for subword tokenizers: surrounding white space would become a piece that is rare in training."""
        pieces = self.model.reads and self.tokenizers.source.kind in ("bpe", "unigram")
        return [text.strip() for text in texts] if pieces else list(texts)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, the end token last; a language model's texts use the target tokenizer."""
        for number, text in enumerate(texts, start=1):
            if any("\ud800" <= char <= "\udfff" for char in text):
                raise DataError(f"Text {number} contains half a character (a lone surrogate): {text!r}.")
        side, badly = ("source", "translated") if self.model.reads else ("target", "continued")
        encoded = [[*ids, EOS] for ids in getattr(self.tokenizers, side).encode_all(self._trimmed(texts))]
        most = self._most_read
        for text, ids in zip(texts, encoded, strict=True):
            if 0 < self.longest < len(ids) - 1 and (most is None or len(ids) <= most):
                logger.warning(
                    "A text of %d tokens is longer than those the model was trained on (up to %d). "
                    "It is read to its end, but may be %s badly: %.40s…",
                    len(ids) - 1,
                    self.longest,
                    badly,
                    text,
                )
        return [self._cut(ids, text) for ids, text in zip(encoded, texts, strict=True)]

    def _cut(self, ids: list[int], text: str) -> list[int]:
        """Truncate a text with more tokens than the model has positions, with a warning."""
        most = self._most_read
        if most is not None and len(ids) > most:
            logger.warning(
                "A text of %d tokens is longer than the %d positions of the model: only its beginning is read. %.40s…",
                len(ids) - 1,
                most - 1,
                text,
            )
        return cut(ids, most)

    def _longest_written(self) -> int:
        """Return the maximum output length of a language model, the end token included; 0 if the source decides."""
        return 0 if self.model.reads else (self.longest or DataConfig().max_length) + 1

    def _encode_pairs(self, pairs: Sequence[Pair]) -> tuple[list[list[int]], list[list[int]]]:
        targets = self.tokenizers.target.encode_all([pair.target for pair in pairs])
        sources = self._encode([pair.source for pair in pairs]) if self.model.reads else [[EOS] for _ in pairs]
        return sources, [[*ids, EOS] for ids in targets]

    def _force(
        self,
        sources: list[list[int]],
        targets: list[list[int]],
        batch_size: int | None,
        run: Forcing,
        options: DecodingConfig | None,
    ) -> list[tuple[list[float], Tensor]]:
        """Run the decoder over given targets; return each one's log-probabilities and weights.

        The results take much memory, so batches are no larger on a GPU.
        """
        forced: dict[int, tuple[list[float], Tensor]] = {}
        decoder = self.decoder(options or self.options)
        lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        for rows in batches(lengths, BATCH if batch_size is None else batch_size):
            with inference_mode(self.model):
                source, mask = (part.to(self.device) for part in pad_sources([sources[row] for row in rows]))
                found = run(decoder, self.model.encode(source, mask), [targets[row] for row in rows])
            for row, (own, looks) in zip(rows, found, strict=True):
                forced[row] = (own, looks[..., : len(sources[row])])
        return [forced[row] for row in range(len(targets))]

    def _explained(self, source: list[int], written: Sequence[Hypothesis], options: DecodingConfig) -> list[Hypothesis]:
        """Replace the hypotheses' attention by posterior attention."""
        forced = self._force([source] * len(written), [one.tokens for one in written], None, explain, options)
        return [replace(one, weights=weights) for one, (_, weights) in zip(written, forced, strict=True)]

    def _translation(
        self,
        text: str,
        source: list[int],
        best: Sequence[Hypothesis],
        replacing: bool,
        look: bool,
        posterior: bool,
        held: Callable[[Sequence[int], str, AttentionTrace], str] | None,
    ) -> Translation:
        """Build a translation from the first hypothesis, with the others as its n-best list."""
        target = self.tokenizers.target
        every = []
        for hypothesis in best:
            trace = trace_of(hypothesis, self._read(source), target, look or held is not None, posterior)
            written = target.decode(hypothesis.tokens)
            if replacing and UNK in hypothesis.tokens and trace.weights.shape[0]:
                read = without_tag(text) if self.tokenizers.tags else text
                if target.kind in SPELLING or (self._copies and self.tokenizers.source.kind == target.kind):
                    written = self._with_copies(hypothesis.tokens, source, read, trace)
                else:
                    written = replace_unknown(hypothesis.tokens, written, trace, read)
            if held is not None:
                written = held(hypothesis.tokens, written, trace)
            if not self.model.reads:
                # Return the given text verbatim, even where the vocabulary lacks some of it.
                begun = target.decode(hypothesis.tokens[: len(target.encode(text))])
                written = text + written.removeprefix(begun)
            every.append(Translation(written, hypothesis.score, trace.target, trace, source=text))
        return replace(every[0], n_best=every[1:])

    def _banned(self, options: DecodingConfig) -> tuple[int, ...]:
        return banned_tokens(self.tokenizers.target, replacing=options.replace_unknown and self._replaces)

    def _written(
        self, text: str, source: list[int], best: Sequence[Hypothesis], options: DecodingConfig
    ) -> Translation:
        """Build a translation with attention, without terms and posterior attention."""
        replacing = options.replace_unknown and self._replaces
        return self._translation(text, source, best, replacing, look=True, posterior=False, held=None)

    def _with_copies(self, tokens: Sequence[int], source: list[int], text: str, trace: AttentionTrace) -> str:
        """Replace unknown tokens by source units; a pointer-generator uses the weights of its last layer."""
        side, read = self.tokenizers.source, slice(1 if self.tokenizers.tags else 0, -1)
        plain = side.plain if isinstance(side, Tagged) else side
        assert isinstance(plain, Plain)
        look = trace.look(layer=-1 if self._copies else None)[:, read]
        return copy_unknown(tokens, self.tokenizers.target, source[read], list(plain.units(text)), look)

    def _read(self, source: list[int]) -> Read:
        """Return the source as displayed; empty for a language model, whose lone end token is not attended to."""
        side = self.tokenizers.source
        source = source if self.model.reads else []
        return Read(side.pieces(source), side.words(source), SPECIAL | frozenset(side.pieces(side.tag_ids)))


def search_by_steps(
    translator: Translator, source: list[int], options: DecodingConfig, request: DecodingRequest
) -> Iterator[Hypothesis]:
    """Yield the best hypothesis after each step of a beam search for one source."""
    with inference_mode(translator.model):
        tokens, mask = (part.to(translator.device) for part in pad_sources([source]))
        encoded = translator.model.encode(tokens, mask)
        rules = Rules.make(encoded.mask, options, request)
        stepping = steps(translator.decoder(options), encoded, rules, request, Beam(options.beam))
    for length in count(1):
        with inference_mode(translator.model):
            step = next(stepping, None)
            if step is None:
                return
            history, totals = step
            (hypothesis,) = history.trace([End(0, length, int(totals[0].argmax()), 0.0)], encoded.mask)
        yield hypothesis


def cut(ids: list[int], most: int | None) -> list[int]:
    """Truncate a source to `most` tokens, keeping the end token."""
    return ids if most is None or len(ids) <= most else [*ids[: most - 1], ids[-1]]


def banned_tokens(target: Tokenizer, replaceable: bool = True, replacing: bool = False) -> tuple[int, ...]:
    """Return the special tokens, tags and control characters that a translation may not contain.

    The unknown token is allowed if it stands for a word that can be replaced from the source; subwords have no unknown
    words, and for characters it is allowed only if it will be replaced (`replacing`).
    """
    known = (target.kind == "words" and replaceable) or (target.kind in SPELLING and replacing)
    marks = (PAD, BOS) if known else (PAD, BOS, UNK)
    return (*marks, *target.tag_ids, *target.control_ids)
