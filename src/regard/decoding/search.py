"""The entry point of all decoding methods, written against the Decoder interface alone."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import DecodingConfig
from regard.decoding import beam_search, sampling  # noqa: F401 (importing them registers them)
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.minimum_bayes_risk import utilities
from regard.decoding.search_methods import DecodingRequest, methods, spell
from regard.decoding.terminology.constraint_state import Constraints
from regard.decoding.terminology.term_extraction import compile_keep
from regard.decoding.token_limits import SPARE
from regard.decoding.vocabulary_shortlist import KEPT
from regard.errors import ConfigError, did_you_mean
from regard.folder_files import check_most
from regard.models.protocol import Decoder, Encoded

__all__ = [
    "SPARE",
    "DecodingRequest",
    "Hypothesis",
    "check_options",
    "in_words",
    "methods",
    "search",
    "search_for",
    "utilities",
]

State = TypeVar("State")

MEANS = ("arithmetic", "geometric")
"""How an ensemble averages its members."""
PRECISIONS = ("float32", "bfloat16", "int8")
"""Precisions of matrix products."""


def search(
    decoder: Decoder[State],
    encoded: Encoded,
    options: DecodingConfig,
    *,
    bos: int,
    eos: int,
    banned: Sequence[int] = (),
    prefix: Sequence[Sequence[int]] | None = None,
    n_best: int = 1,
    candidates: int = 0,
    longest: int = 0,
    keys: Sequence[int] | None = None,
    write: Callable[[Sequence[int]], str] = spell,
    look: bool = True,
    words: Sequence[NDArray[np.int32]] | None = None,
    constraints: Sequence[Constraints] | None = None,
) -> list[list[Hypothesis]]:
    """Return `n_best` hypotheses of every sentence by `options.method`, best first (fewer if fewer exist).

    A hypothesis cut off at the maximum length comes after all complete ones, whatever its score: a model caught in a
    repetition is sure of every step. Samples are in the order in which they were drawn.

    `banned` tokens are never generated. `prefix` gives each sentence the tokens that it must start with (of any number,
    banned or not); they count in lengths and scores like all others. With `candidates`, each hypothesis has that many
    of the most probable tokens at each step. `longest`, `keys`, `write`, `look`, `words` and `constraints` are as in
    `DecodingRequest`.
    """
    check_options(options, n_best, candidates)
    if not len(encoded.mask):
        return []
    own = (longest, decoder.most, keys, write, look, words, constraints)
    request = DecodingRequest(bos, eos, banned, prefix, n_best, candidates, *own)
    return search_for(decoder, encoded, options, request)


def search_for(
    decoder: Decoder[State], encoded: Encoded, options: DecodingConfig, request: DecodingRequest
) -> list[list[Hypothesis]]:
    """Run a search with options that were checked."""
    if request.constraints is not None and options.method != "beam":
        raise _not_beam(options.method)
    with torch.inference_mode():
        return methods[options.method](decoder, encoded, options, request)


def in_words(options: DecodingConfig, members: int = 1) -> str:
    """Describe a search in words, with every option that affects the result."""
    how = {
        "beam": ["greedy search" if options.beam == 1 else f"beam {options.beam}"],
        "diverse": [
            f"diverse beam {options.beam} in {options.groups or options.beam} groups",
            f"diversity {options.diversity:g}",
        ],
        "sample": ["sampling"],
        "mbr": [f"minimum Bayes risk of {options.samples} samples by {options.mbr_metric}"],
    }.get(options.method, [options.method])
    if options.method in ("sample", "mbr"):
        how += [
            f"temperature {options.temperature:g}",
            f"top {options.top_k}" if options.top_k else "",
            f"nucleus {options.top_p:g}" if options.top_p < 1 else "",
            f"seed {options.seed}",
        ]
    else:
        how += [f"length penalty {options.length_penalty:g}", f"coverage penalty {options.coverage_penalty:g}"]
        how += [f"patience {options.patience:g}"] if options.patience else []
    parts = [
        f"ensemble of {members} ({options.ensemble} mean)" if members > 1 else "",
        *how,
        f"at least {options.min_length} tokens" if options.min_length else "",
        f"at most {options.max_length} tokens" if options.max_length else _ratio(options.max_ratio),
        "unknown words replaced" if options.replace_unknown else "",
        f"matches of {options.keep} kept" if options.keep else "",
        f"products in {options.precision}" if options.precision != "float32" else "",
        f"a shortlist of {options.shortlist} words for each source word" if options.shortlist else "",
    ]
    return ", ".join(part for part in parts if part)


def _ratio(most: float) -> str:
    return "" if most == DecodingConfig.max_ratio else f"at most {most:g} tokens for each source token and ten"


def check_options(options: DecodingConfig, n_best: int = 1, candidates: int = 0) -> None:
    """Raise a ConfigError for invalid options."""
    methods[options.method]  # raises for an unknown name
    if options.beam < 1:
        raise ConfigError(f"decoding.beam is {options.beam}; it must be at least 1 (1 is greedy search).")
    if n_best < 1:
        raise ConfigError(f"n_best is {n_best}; it must be at least 1.")
    if candidates < 0:
        raise ConfigError(f"candidates is {candidates}; it must be at least 0 (0 for none).")
    _check_method(options, n_best)
    _check_draws(options)
    if not math.isfinite(options.length_penalty):
        raise ConfigError(f"decoding.length_penalty is {options.length_penalty}; it must be a finite number.")
    if not 0 <= options.coverage_penalty < math.inf:
        raise ConfigError(f"decoding.coverage_penalty is {options.coverage_penalty}; it must be at least 0 and finite.")
    if not 0 <= options.patience < math.inf:
        raise ConfigError(f"decoding.patience is {options.patience}; it must be at least 0 and finite.")
    if not 0 <= options.max_ratio < math.inf:
        raise ConfigError(f"decoding.max_ratio is {options.max_ratio}; it must be at least 0 and finite.")
    if options.min_length < 0 or options.max_length < 0:
        name = "min_length" if options.min_length < 0 else "max_length"
        raise ConfigError(f"decoding.{name} is {getattr(options, name)}; it must be at least 0.")
    check_most(options)
    if 0 < options.max_length < options.min_length:
        raise ConfigError(
            f"decoding.min_length is {options.min_length} but decoding.max_length is {options.max_length}: "
            "the fewest tokens cannot be more than the most."
        )
    for name, allowed in (("ensemble", MEANS), ("precision", PRECISIONS)):
        if (got := getattr(options, name)) not in allowed:
            raise ConfigError(f"decoding.{name} is {got!r}; it must be {_either(allowed)}.{did_you_mean(got, allowed)}")
    if not 0 <= options.shortlist <= KEPT:
        raise ConfigError(
            f"decoding.shortlist is {options.shortlist}; it must be from 0 (for all words) to {KEPT}, "
            "as many as training keeps for each source word."
        )


def _not_beam(method: str) -> ConfigError:
    return ConfigError(
        f"decoding.method is {method!r}, but only 'beam' supports terms that must be kept (decoding.keep, a glossary)."
    )


def _either(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _check_method(options: DecodingConfig, n_best: int) -> None:
    """Check the number of hypotheses; sampling has no upper limit."""
    if options.method in ("beam", "diverse") and n_best > options.beam:
        raise ConfigError(
            f"n_best is {n_best} but decoding.beam is {options.beam}: beam search returns at most as many hypotheses "
            f"as its beam has. Set the beam to {n_best} or more."
        )
    if options.groups < 0:
        raise ConfigError(f"decoding.groups is {options.groups}; it must be at least 0 (0: one for each hypothesis).")
    compile_keep(options.keep)
    if options.keep and options.method != "beam":
        raise _not_beam(options.method)
    if options.method == "diverse" and options.groups and options.beam % options.groups:
        raise ConfigError(
            f"decoding.beam is {options.beam}, which does not divide into {options.groups} groups (decoding.groups): "
            f"use {max(1, options.beam // options.groups) * options.groups}, or another number of groups."
        )
    if not 0 <= options.diversity < math.inf:
        raise ConfigError(f"decoding.diversity is {options.diversity}; it must be at least 0 and finite.")
    if options.samples < 1:
        raise ConfigError(f"decoding.samples is {options.samples}; it must be at least 1.")
    if options.method == "mbr" and n_best > options.samples:
        raise ConfigError(
            f"n_best is {n_best} but decoding.samples is {options.samples}: there are too few samples to choose from. "
            f"Set it to {n_best} or more."
        )
    utilities[options.mbr_metric]


def _check_draws(options: DecodingConfig) -> None:
    if not 0 < options.temperature < math.inf:
        raise ConfigError(
            f"decoding.temperature is {options.temperature}; it must be above 0 and finite "
            "(for the most probable tokens alone, set decoding.top_k=1)."
        )
    if options.top_k < 0:
        raise ConfigError(f"decoding.top_k is {options.top_k}; it must be at least 0 (0 for all tokens).")
    if not 0 < options.top_p <= 1:
        raise ConfigError(f"decoding.top_p is {options.top_p}; it must be above 0 and at most 1 (1 for all tokens).")
