"""Which installed fonts have the letters of a picture, and what to say where none has.

matplotlib's own DejaVu Sans has Latin, Greek, Cyrillic, Arabic, Hebrew, Georgian, Armenian and some symbols. For other
letters the installed fonts are searched, also those installed since matplotlib made its list of fonts.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

FIRST = "DejaVu Sans"
"""Comes with matplotlib, so pictures look the same everywhere as long as it has the letters."""

# These have a glyph for every character, but not the right one.
_PRETENDERS = ("Last Resort", "Adobe Blank")
_CJK = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "IDEOGRAPHIC"}
_SHAPED = {"ARABIC", "HEBREW", "SYRIAC", "DEVANAGARI", "BENGALI", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "GUJARATI"}


class FontChoice(NamedTuple):
    """Families to try in turn for each letter, and the letters that none of them has."""

    families: tuple[str, ...]
    missing: frozenset[str]


def choose_fonts(texts: Iterable[str]) -> FontChoice:
    """Find families that together have all letters of the texts, as far as any installed one has them."""
    return _choose(frozenset(char for text in texts for char in text if _is_drawn(char)))


def notes(texts: Iterable[str], missing: Iterable[str], suffix: str) -> list[str]:
    """Say which letters will not be seen, or not as they should be, in a picture of this kind."""
    found = []
    if gone := sorted(missing):
        effect = "show where the viewer has one" if suffix == ".svg" else "are drawn as boxes"
        found.append(
            f"No installed font has {_sample(gone)} ({', '.join(_scripts(gone))}): they {effect}. "
            f"Install one that has, for example the package {' or '.join(_packages(gone))}."
        )
    broken = sorted({script(char) for text in texts for char in text} & _SHAPED)
    if broken and suffix != ".svg" and not shapes_text():
        import matplotlib

        found.append(
            f"matplotlib {matplotlib.__version__} writes {' and '.join(name.title() for name in broken)} unjoined and "
            "from left to right: pip install -U 'matplotlib>=3.11', or save as .svg."
        )
    return found


def shapes_text() -> bool:
    """Tell whether matplotlib joins letters and writes from right to left (from 3.11 on, by libraqm)."""
    from matplotlib import ft2font

    return hasattr(ft2font, "__libraqm_version__")


def script(char: str) -> str:
    """Return the script as Unicode's name of the character tells it, such as `ARABIC`; `EMOJI` for pictures."""
    if unicodedata.category(char) == "So" and ord(char) >= 0x1F000:
        return "EMOJI"
    return unicodedata.name(char, "UNNAMED").split()[0]


def _is_drawn(char: str) -> bool:
    return not (char.isspace() or unicodedata.category(char) == "Cf" or 0xFE00 <= ord(char) <= 0xFE0F)


def _sample(chars: list[str]) -> str:
    shown = " ".join(chars[:8])
    return shown if len(chars) <= 8 else f"{shown} and {len(chars) - 8} more characters"


def _scripts(chars: list[str]) -> list[str]:
    return sorted({name if (name := script(char)) == "CJK" else name.lower() for char in chars})


def _packages(chars: list[str]) -> list[str]:
    names = {script(char) for char in chars}
    wanted = [("fonts-noto-cjk", names & _CJK), ("fonts-symbola", names & {"EMOJI"}), ("fonts-noto-core", names)]
    chosen = [package for package, needed in wanted[:2] if needed]
    return chosen if names <= _CJK | {"EMOJI"} else [*chosen, wanted[2][0]]


@lru_cache(maxsize=64)
def _choose(chars: frozenset[str]) -> FontChoice:
    families, missing = [FIRST], chars - {chr(code) for code in _characters(FIRST)}
    for search in (_families, _new_families):
        for family in search() if missing else ():
            if found := {char for char in missing if ord(char) in _characters(family)}:
                families.append(family)
                missing -= found
            if not missing:
                break
    return FontChoice(tuple(families), frozenset(missing))


def _families() -> list[str]:
    """List the families that matplotlib knows, upright regular ones, plain sans-serif designs first."""
    from matplotlib import font_manager

    names = {entry.name for entry in font_manager.fontManager.ttflist if entry.style == "normal"}
    names = {name for name in names if not name.startswith(_PRETENDERS)}
    return sorted(names, key=lambda name: (not name.startswith("Noto Sans"), "Sans" not in name, name))


def _new_families() -> list[str]:
    """Make fonts known that were installed after matplotlib made its list; return all families then."""
    from matplotlib import font_manager

    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):
        try:
            font_manager.fontManager.addfont(path)
        except Exception:  # a font that cannot be read is as good as none, whatever FreeType says of it
            continue
    return _families()


@lru_cache(maxsize=16)
def _characters(family: str) -> frozenset[int]:
    """Return the code points that a family has glyphs for."""
    from matplotlib import font_manager

    try:
        path = font_manager.findfont(font_manager.FontProperties(family=[family]), fallback_to_default=False)
        font = font_manager.get_font(path)
        return frozenset(font.get_charmap()) if font.scalable else frozenset()
    except Exception:  # colour bitmaps and broken files: FreeType's errors have no common type
        return frozenset()
