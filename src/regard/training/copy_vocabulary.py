"""Which target token each source token is, for a model that copies."""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from regard.data.special_tokens import PAD, UNK
from regard.data.tokenizers import Tokenizers
from regard.data.tokenizers.base import Tokenizer, is_mark
from regard.errors import ConfigError
from regard.models.pointer_generator import Pointer


def match_words(model: nn.Module, vocabulary: Any) -> None:
    """Tell a model that copies which tokens of its two vocabularies are the same; of others nothing is asked."""
    decoder = getattr(model, "decoder", None)
    if isinstance(decoder, Pointer):
        decoder.match(matches(vocabulary))


def matches(tokenizers: Tokenizers) -> list[int]:
    """Return the target token of each source token: the one with the same text, or padding where there is none.

    Marks, tags and control characters have none: no translation may hold them.
    """
    source, target = tokenizers.source, tokenizers.target
    never = {*source.tag_ids, *source.control_ids}
    able = [token for token in range(source.size) if not is_mark(token) and token not in never]
    if tokenizers.joint:
        same = {token: token for token in able}
    else:
        written = {text: token for token, text in _texts(target, range(target.size))}
        same = {token: written[text] for token, text in _texts(source, able) if text in written}
    if not same.keys() - {UNK}:
        raise ConfigError(
            "model.copy copies tokens that both sides have, and the two vocabularies have no text in common: set "
            "tokenizer.joint=true, or model.copy=false."
        )
    return [same.get(token, PAD) for token in range(source.size)]


def _texts(side: Tokenizer, tokens: Iterable[int]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield what each token adds to a text; a byte is no character by itself, and is known by how it is shown."""
    tags = set(side.tag_ids)
    for token in tokens:
        text, piece = side.surfaces([token])[0], side.pieces([token])[0]
        is_byte = piece.startswith("<0x") and piece not in text
        if not is_mark(token) and token not in tags:
            yield token, ("", piece) if is_byte else (text, "")
