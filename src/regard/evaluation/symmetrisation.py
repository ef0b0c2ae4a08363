"""Merging the alignments of two directions into one (Och & Ney 2003; Koehn et al. 2003 and 2005).

A model that reads the source links each target word with one source word, one that reads the target each source word
with one target word. Both sets of links are given as (source word, target word). What both say is likely to be right,
what one says may be: `intersection` trusts little, `union` all, and those between begin with the intersection and let
it grow, through links of the union, around what is there.
"""

from collections.abc import Callable, Iterable
from typing import Final

from regard.data.pair import Links
from regard.registry import Registry

Merge = Callable[[Links, Links], Links]
"""Takes the links of the model source → target, and those of the model target → source."""

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
    """Begin with what both have, and add neighbours, diagonal ones too, that either has and that reach a new word."""
    links = set(forward & backward)
    every = forward | backward
    ordered = _in_order(every)
    before = -1
    while before != len(links):
        before = len(links)
        # What is added is looked at in the same pass if it comes later, as in the paper.
        for source, target in ordered:
            if (source, target) in links:
                for i, j in _NEIGHBOURS:
                    near = (source + j, target + i)
                    if near in every and (_new_source(near, links) or _new_target(near, links)):
                        links.add(near)
    return frozenset(links)


@symmetrisations.register("grow-diag-final")
def grow_diag_final(forward: Links, backward: Links) -> Links:
    """As grow-diag; then add what either direction has for a source or a target word without a link."""
    links = set(grow_diag(forward, backward))
    for link in (*_in_order(forward), *_in_order(backward)):
        if _new_source(link, links) or _new_target(link, links):
            links.add(link)
    return frozenset(links)


@symmetrisations.register("grow-diag-final-and")
def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """As grow-diag; then add what either direction has between two words that both are without a link."""
    links = set(grow_diag(forward, backward))
    for link in (*_in_order(forward), *_in_order(backward)):
        if _new_source(link, links) and _new_target(link, links):
            links.add(link)
    return frozenset(links)


def _in_order(links: Links) -> list[tuple[int, int]]:
    """Sort by target word, then by source word: which links come first decides which others still fit."""
    return sorted(links, key=lambda link: (link[1], link[0]))


def _new_source(link: tuple[int, int], links: Iterable[tuple[int, int]]) -> bool:
    return all(source != link[0] for source, _ in links)


def _new_target(link: tuple[int, int], links: Iterable[tuple[int, int]]) -> bool:
    return all(target != link[1] for _, target in links)
