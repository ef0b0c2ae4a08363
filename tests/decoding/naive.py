"""Search as one would write it on a board: one sentence, plain lists, everything computed again from scratch.

`regard.decoding.search` must find the same. This is the version to read; that is the version to run.
"""

import itertools
import math

import torch

from .toy_decoders import EOS, reread


def score(decoder, encoded, tokens, options):
    """log P(Y|X) / lp(Y) + cp(X; Y), term by term (Wu et al. 2016, equation 14)."""
    log_probs, _, weights = reread(decoder, encoded, tokens)
    alpha, beta = options.length_penalty, options.coverage_penalty
    lp = (5 + len(tokens)) ** alpha / (5 + 1) ** alpha
    cp = 0.0
    if beta:
        looks = weights.mean(dim=(1, 2)).tolist()  # target × source
        cp = beta * sum(math.log(min(sum(look[i] for look in looks), 1.0)) for i in range(len(looks[0])))
    return sum(log_probs) / lp + cp


def may_write(tokens, token, options, banned, prefix):
    """May this token follow these?"""
    if len(tokens) < len(prefix):
        return token == prefix[len(tokens)]
    if token == EOS and len(tokens) < options.min_length:
        return False
    return token not in banned


def next_log_probs(decoder, encoded, tokens):
    """Log-probabilities of all tokens after the given ones."""
    return reread(decoder, encoded, [*tokens, 0])[1][-1].tolist()


def longest(encoded, options, prefix=()):
    """The most tokens."""
    source = int(encoded.mask.sum())
    return options.max_length or max(2 * source + 10, len(prefix) + 10, options.min_length + 1)


def beam_search(decoder, encoded, options, n_best=1, banned=(), prefix=()):
    """Keep the best `beam` extensions at each step until nothing is live; no early stopping at all."""
    live, finished = [(0.0, [])], []
    while live:
        extensions = [
            (log_prob + more, [*tokens, token])
            for log_prob, tokens in live
            for token, more in enumerate(next_log_probs(decoder, encoded, tokens))
            if may_write(tokens, token, options, banned, prefix)
        ]
        kept = sorted(extensions, reverse=True)[: options.beam]
        ended = [tokens[-1] == EOS or len(tokens) == longest(encoded, options, prefix) for _, tokens in kept]
        finished += [tokens for (_, tokens), done in zip(kept, ended, strict=True) if done]
        live = [hypothesis for hypothesis, done in zip(kept, ended, strict=True) if not done]
    return rank(decoder, encoded, options, finished)[:n_best]


def rank(decoder, encoded, options, hypotheses):
    """Those that ended before those that were cut off; within each, the best score first."""
    scored = [(score(decoder, encoded, tokens, options), tokens) for tokens in hypotheses]
    return sorted(scored, key=lambda pair: (pair[1][-1] == EOS, *pair), reverse=True)


def greedy_search(decoder, encoded, options, banned=()):
    """Always the most probable token."""
    tokens = []
    while tokens[-1:] != [EOS] and len(tokens) < longest(encoded, options):
        log_probs = next_log_probs(decoder, encoded, tokens)
        tokens.append(max((t for t in range(decoder.size) if t not in banned), key=log_probs.__getitem__))
    return tokens


def brute_force(decoder, encoded, options, banned=()):
    """Score every sequence there is, best first."""
    words = [token for token in range(decoder.size) if token != EOS and token not in banned]
    limit = longest(encoded, options)
    every = [[*body, EOS] for n in range(limit) for body in itertools.product(words, repeat=n)]
    every += [list(body) for body in itertools.product(words, repeat=limit)]
    return rank(decoder, encoded, options, every)


def close(found, expected):
    """Same tokens in the same order, same scores."""
    assert [hypothesis.tokens for hypothesis in found] == [tokens for _, tokens in expected]
    torch.testing.assert_close([h.score for h in found], [s for s, _ in expected], rtol=1e-5, atol=1e-5)


def diverse_beam_search(decoder, encoded, options, n_best=1, banned=(), prefix=()):
    """Groups that choose one after the other; a token costs `diversity` for each time an earlier group has taken it."""
    groups = options.groups or options.beam
    live, finished = [[(0.0, [])] for _ in range(groups)], set()
    while any(live):
        taken = []
        for group, hypotheses in enumerate(live):
            extensions = [
                (log_prob + more, [*tokens, token])
                for log_prob, tokens in hypotheses
                for token, more in enumerate(next_log_probs(decoder, encoded, tokens))
                if may_write(tokens, token, options, banned, prefix)
            ]
            ranked = sorted(extensions, key=lambda e: e[0] - options.diversity * taken.count(e[1][-1]), reverse=True)
            kept = ranked[: options.beam // groups]
            taken_now = [tokens[-1] for _, tokens in kept]
            ended = [tokens[-1] == EOS or len(tokens) == longest(encoded, options, prefix) for _, tokens in kept]
            finished |= {tuple(tokens) for (_, tokens), done in zip(kept, ended, strict=True) if done}
            live[group] = [hypothesis for hypothesis, done in zip(kept, ended, strict=True) if not done]
            taken += taken_now
    return rank(decoder, encoded, options, [list(tokens) for tokens in finished])[:n_best]


def drawn_from(decoder, encoded, tokens, options, banned=()):
    """The probabilities that the next token is drawn with, by token: temperature, then top k, then the nucleus."""
    log_probs = next_log_probs(decoder, encoded, tokens)
    allowed = [token for token in range(len(log_probs)) if may_write(tokens, token, options, banned, ())]
    best_first = sorted(allowed, key=log_probs.__getitem__, reverse=True)[: options.top_k or None]
    p = normalised({token: math.exp(log_probs[token] / options.temperature) for token in best_first})
    kept, mass = {}, 0.0
    for token in best_first:
        if mass >= options.top_p:
            break
        kept[token] = p[token]
        mass += p[token]
    return normalised(kept)


def normalised(shares):
    """Divide by the sum."""
    return {token: share / sum(shares.values()) for token, share in shares.items()}


def chances(decoder, encoded, options, banned=(), tokens=()):
    """The probability of every sequence that can be drawn."""
    if tokens[-1:] == (EOS,) or len(tokens) == options.max_length:
        return {tokens: 1.0}
    found = {}
    for token, p in drawn_from(decoder, encoded, list(tokens), options, banned).items():
        for rest, q in chances(decoder, encoded, options, banned, (*tokens, token)).items():
            found[rest] = p * q
    return found
