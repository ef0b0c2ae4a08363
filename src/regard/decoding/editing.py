"""Translate with edited attention, and compare the result with what was there before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from regard.attention.weight_hooks import hooked
from regard.config import DecodingConfig
from regard.data.batching import pad_sources
from regard.data.special_tokens import BOS, EOS
from regard.data.tokenizers.base import Tokenizer
from regard.decoding.edit_hooks import hooks_of
from regard.decoding.edits import Edit, ForcePrefix, KeepPrefix, SetRow, SetWeights
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import length_penalty
from regard.decoding.search import DecodingRequest, check_options, search_for
from regard.decoding.teacher_forcing import force
from regard.decoding.token_limits import limit
from regard.decoding.translation import Translation
from regard.errors import ConfigError
from regard.models.inference_mode import inference_mode
from regard.viz.notebook import changes_html
from regard.viz.trace import AttentionTrace

if TYPE_CHECKING:
    from regard.decoding.translator import Translator

Editable = str | Translation | AttentionTrace
"""What can be edited: a source text, its translation, or the trace of one."""


@dataclass(frozen=True)
class Change:
    """A stretch of tokens before and after an edit."""

    kind: str
    """`same`, `replaced`, `removed` or `added`."""
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class EditComparison:
    """What an edit changed."""

    changes: tuple[Change, ...]
    """The tokens before and after as a diff."""
    old_tokens: tuple[str, ...]
    old_log_probs: tuple[float, ...]
    """Log-probability of each old token, before the edit."""
    edited_log_probs: tuple[float, ...]
    """Log-probability of the same old tokens with the edit (teacher forcing)."""
    new_tokens: tuple[str, ...]
    new_log_probs: tuple[float, ...]
    """Log-probability of each new token, with the edit."""

    @property
    def log_prob_changes(self) -> tuple[float, ...]:
        """For each old token, by how much the edit changed its log-probability."""
        return tuple(new - old for old, new in zip(self.old_log_probs, self.edited_log_probs, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and strings."""
        return {
            "changes": [{"kind": one.kind, "old": list(one.old), "new": list(one.new)} for one in self.changes],
            "old": [
                {"token": token, "log_prob": before, "edited": after, "change": after - before}
                for token, before, after in zip(self.old_tokens, self.old_log_probs, self.edited_log_probs, strict=True)
            ],
            "new": [
                {"token": token, "log_prob": value}
                for token, value in zip(self.new_tokens, self.new_log_probs, strict=True)
            ],
        }


@dataclass(frozen=True, eq=False)
class EditedTranslation(Translation):
    """A translation that knows its edits, and what it was made from."""

    edits: tuple[Edit, ...] = ()
    """All edits, in order: with the source text they give the same translation again."""
    before: Translation = field(kw_only=True)
    """The translation before the last call of `edit`: with its own edits, if it was edited too."""
    edited_log_probs: tuple[float, ...] = ()
    """Log-probability of each token of `before`, with the edits."""

    def undo(self) -> Translation:
        """Return the translation before the last edit, unchanged."""
        return self.before

    def comparison(self) -> EditComparison:
        """Compare it with the translation before the last edit."""
        old, new = self.before.tokens, self.tokens
        names = {"equal": "same", "replace": "replaced", "delete": "removed", "insert": "added"}
        operations = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        return EditComparison(
            changes=tuple(Change(names[kind], old[a:b], new[c:d]) for kind, a, b, c, d in operations),
            old_tokens=old,
            old_log_probs=self.before.attention.log_probs,
            edited_log_probs=self.edited_log_probs,
            new_tokens=new,
            new_log_probs=self.attention.log_probs,
        )

    def _repr_html_(self) -> str:
        """Show what changed, then the new translation with its attention."""
        changes = [(change.kind, change.old, change.new) for change in self.comparison().changes]
        return changes_html(changes, self.attention.special) + super()._repr_html_()

    def to_json(self) -> dict[str, Any]:
        """Return everything but the trace, which has a `to_json` of its own, as plain lists and strings."""
        return {
            "source": self.source,
            "text": self.text,
            "score": self.score,
            "tokens": list(self.tokens),
            "edits": [edit.to_json() for edit in self.edits],
            "comparison": self.comparison().to_json(),
        }


def edits_of(
    of: Editable,
    edits: Edit | Sequence[Edit],
    step: int | None,
    weights: Mapping[int, float] | Sequence[float] | None,
    layer: int | None,
    head: int | None,
    token: str | None,
) -> tuple[Edit, ...]:
    """Return the edits given as such, then the one given by its parts."""
    edits = (edits,) if isinstance(edits, Edit) else edits
    if weights is None and token is None:
        if step is not None or layer is not None or head is not None:
            raise ConfigError("An edit with step, layer or head needs weights, or a token for the step.")
        return tuple(edits)
    if step is None or (weights is not None and token is not None):
        raise ConfigError("An edit needs a step, and either weights or a token.")
    if token is not None:
        if isinstance(of, str) or layer is not None or head is not None:
            raise ConfigError(
                "A token is taken at a step of a translation: give the translation, without layer and head."
            )
        before = of.tokens if isinstance(of, Translation) else of.target
        check_step(step, len(before))
        return (*edits, ForcePrefix((*before[:step], token)))
    if isinstance(weights, Mapping):
        return (*edits, SetWeights(step=step, layer=layer, head=head, weights=weights))
    return (*edits, SetRow(step=step, layer=layer, head=head, row=tuple(weights or ())))


def edit(
    translator: "Translator", of: Editable, edits: Sequence[Edit], *, beam: int, candidates: int, to: str | None
) -> EditedTranslation:
    """Apply further edits; see `Translator.edit`."""
    translator.check_source()
    options = options_for(translator.options, beam)
    check_options(options, 1, candidates)
    if isinstance(of, str):
        source, text = encode(translator, of, to)
        before = search(translator, source, text, (), options, candidates)
        every = tuple(edits)
    else:
        source, before = opened(translator, of)
        text, own = before.source, before.edits if isinstance(before, EditedTranslation) else ()
        for one in edits:
            check_step(one.first_step, len(before.tokens))
        every = (*own, *_kept(before.tokens, own, edits), *edits)
    prefix = token_ids(translator.tokenizers.target, prefix_of(every))
    most = limit(options, 0, len(source), prefix)
    for one in every:
        if one.first_step >= most:
            raise ConfigError(
                f"There is no step {one.first_step}: the translation of this text has at most {most} tokens."
            )
    found = search(translator, source, text, every, options, candidates)
    again = force_edited(translator, source, token_ids(translator.tokenizers.target, before.tokens), every)
    own_fields = {name: getattr(found, name) for name in Translation.__dataclass_fields__}
    return EditedTranslation(**own_fields, edits=every, before=before, edited_log_probs=tuple(again.log_probs))


def check_step(step: int, count: int) -> None:
    """Raise a ConfigError if a translation of `count` tokens has no such step."""
    if not 0 <= step < count:
        raise ConfigError(f"There is no step {step}: the translation has {count} tokens, counted from 0.")


def _kept(tokens: Sequence[str], own: Sequence[Edit], new: Sequence[Edit]) -> list[Edit]:
    """Return the edit that keeps the tokens before the first step that new edits may change."""
    if not new or any(isinstance(one, ForcePrefix) for one in new):
        return []
    forced = [one for one in own if isinstance(one, ForcePrefix) and not isinstance(one, KeepPrefix)]
    count = max(min(one.first_step for one in new), len(forced[-1].tokens) if forced else 0)
    kept = tuple(tokens[:count])
    return [] if kept == prefix_of(own) else [KeepPrefix(kept)]


def prefix_of(edits: Sequence[Edit]) -> tuple[str, ...]:
    """Return the tokens that the translation must start with."""
    return next((tuple(one.tokens) for one in reversed(edits) if isinstance(one, ForcePrefix)), ())


# -- running the model ------------------------------------------------------------------------------------------------


def options_for(options: DecodingConfig, beam: int) -> DecodingConfig:
    """Return the options of an edited search: a plain beam search over all words, in full precision."""
    return replace(options, method="beam", beam=beam, shortlist=0, precision="float32", keep="")


def encode(translator: "Translator", text: str, to: str | None = None) -> tuple[list[int], str]:
    """Return the source ids of a text as `translate` reads it, and the text with its tag."""
    if not text.strip():
        raise ConfigError("The text is empty, so there is nothing to translate or to edit.")
    (tagged,) = translator.tokenizers.tag(translator._trimmed([text]), to)
    return translator._encode([tagged])[0], tagged


def opened(translator: "Translator", of: Translation | AttentionTrace) -> tuple[list[int], Translation]:
    """Return the source ids of a translation or trace, and the translation."""
    trace = of.attention if isinstance(of, Translation) else of
    if not trace.target or not trace.source:
        raise ConfigError("The translation is empty, so there is nothing to edit or to explain.")
    source = token_ids(translator.tokenizers.source, trace.source)
    if isinstance(of, Translation) and of.source:
        return source, of
    read = translator.tokenizers.source.decode(source)
    if isinstance(of, Translation):
        return source, replace(of, source=read)
    target = token_ids(translator.tokenizers.target, trace.target)
    if not trace.log_probs:
        trace = replace(trace, log_probs=tuple(force_edited(translator, source, target, ()).log_probs))
    score = sum(trace.log_probs) if trace.score is None else trace.score
    return source, Translation(translator.tokenizers.target.decode(target), score, trace.target, trace, source=read)


def token_ids(tokenizer: Tokenizer, pieces: Sequence[str]) -> list[int]:
    """Return the ids of tokens as displayed; a display form that two ids share counts as the first."""
    table: dict[str, int] = {}
    for token, piece in enumerate(tokenizer.pieces(range(tokenizer.size))):
        table.setdefault(piece, token)
    for piece in pieces:
        if piece not in table:
            raise ConfigError(f"This model's vocabulary has no token {piece!r}: is the trace of another model?")
    return [table[piece] for piece in pieces]


def search(
    translator: "Translator",
    source: list[int],
    text: str,
    edits: Sequence[Edit],
    options: DecodingConfig,
    candidates: int = 0,
) -> Translation:
    """Search with edits, always in Python: the compiled and recorded searches know no hooks."""
    target, decoder = translator.tokenizers.target, translator.decoder(options)
    prefix = token_ids(target, prefix_of(edits))
    if EOS in prefix:
        forced = force_edited(translator, source, prefix, edits)
        score = sum(forced.log_probs) / length_penalty(len(prefix), options.length_penalty)
        return translator._written(text, source, [replace(forced, score=score)], options)
    request = DecodingRequest(
        BOS,
        EOS,
        translator._banned(options),
        [prefix],
        candidates=min(candidates, target.size),
        most=translator.model.decoder.most,
        write=target.decode,
    )
    hooks = hooks_of(decoder, edits, len(source))
    with inference_mode(translator.model), hooked(hooks):
        encoded = translator.model.encode(*(part.to(translator.device) for part in pad_sources([source])))
        (found,) = search_for(decoder, encoded, options, request)
    return translator._written(text, source, found, options)


def force_edited(
    translator: "Translator", source: list[int], tokens: Sequence[int], edits: Sequence[Edit]
) -> Hypothesis:
    """Run the decoder over given tokens, with edits."""
    if EOS in tokens[:-1]:
        raise ConfigError("A prefix goes on after the end token; let it end there.")
    decoder = translator.decoder(translator.options)
    hooks = hooks_of(decoder, edits, len(source))
    with inference_mode(translator.model), hooked(hooks):
        encoded = translator.model.encode(*(part.to(translator.device) for part in pad_sources([source])))
        ((log_probs, weights),) = force(decoder, encoded, [list(tokens)], look=True)
    return Hypothesis(list(tokens), sum(log_probs), log_probs, weights)
