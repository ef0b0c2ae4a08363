"""Symmetrisation: merge the alignments of two directions (Och & Ney 2003; Koehn et al. 2003 and 2005).

A source-to-target model links each target word to one source word, a target-to-source model each source word to one
target word. Both sets of links are given as (source word, target word). Links in the intersection have high precision,
those in the union high recall; the methods in between start from the intersection and grow it by neighbouring links of
the union.
"""

from collections.abc import Callable, Iterable
from typing import Final

from regard.data.pair import Links
from regard.registry import Registry

Merge = Callable[[Links, Links], Links]
"""Takes the links of the source-to-target model and of the target-to-source model."""

symmetrisations: Registry[Merge] = Registry("way to merge alignments", "symmetrisations")

_NEIGHBOURS: Final = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@symmetrisations.register("intersection")
def intersection(forward: Links, backward: Links) -> Links:
    """Keep the links that both directions have."""
    return forward & backward


@symmetrisations.register("union")
def union(forward: Links, backward: Links) -> Links:
    """Keep the links that either direction has."""
    return forward | backward


@symmetrisations.register("grow-diag")
def grow_diag(forward: Links, backward: Links) -> Links:
    """Start from the intersection; add neighbouring links of the union, also diagonal ones, that align a new word."""
    links = set(forward & backward)
    every = forward | backward
    ordered = _in_order(every)
    before = -1
    while before != len(links):
        before = len(links)
        # Links added in a pass are themselves extended in it if they come later, as in the paper.
        for source, target in ordered:
            if (source, target) in links:
                for i, j in _NEIGHBOURS:
                    near = (source + j, target + i)
                    if near in every and (_new_source(near, links) or _new_target(near, links)):
                        links.add(near)
    return frozenset(links)


@symmetrisations.register("grow-diag-final")
def grow_diag_final(forward: Links, backward: Links) -> Links:
    """Do grow-diag; then add links of either direction where the source or the target word is still unaligned."""
    links = set(grow_diag(forward, backward))
    for link in (*_in_order(forward), *_in_order(backward)):
        if _new_source(link, links) or _new_target(link, links):
            links.add(link)
    return frozenset(links)


@symmetrisations.register("grow-diag-final-and")
def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """Do grow-diag; then add links of either direction where both words are still unaligned."""
    links = set(grow_diag(forward, backward))
    for link in (*_in_order(forward), *_in_order(backward)):
        if _new_source(link, links) and _new_target(link, links):
            links.add(link)
    return frozenset(links)


def _in_order(links: Links) -> list[tuple[int, int]]:
    """Sort by target word, then by source word: the order decides which later links are still added."""
    return sorted(links, key=lambda link: (link[1], link[0]))


def _new_source(link: tuple[int, int], links: Iterable[tuple[int, int]]) -> bool:
    return all(source != link[0] for source, _ in links)


def _new_target(link: tuple[int, int], links: Iterable[tuple[int, int]]) -> bool:
    return all(target != link[1] for _, target in links)
