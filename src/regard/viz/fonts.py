"""Find installed fonts for the characters of a figure, and report those that no font has.

matplotlib's own DejaVu Sans has Latin, Greek, Cyrillic, Arabic, Hebrew, Georgian, Armenian and some symbols. For other
characters the installed fonts are searched, including those installed after matplotlib cached its list of fonts.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

FIRST = "DejaVu Sans"
"""Comes with matplotlib, so figures look the same everywhere as long as it has the characters."""

# These have a placeholder glyph for every character.
_PRETENDERS = ("Last Resort", "Adobe Blank")
_CJK = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"}
_SHAPED = {"ARABIC", "HEBREW", "SYRIAC", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA"}
_SHAPED |= {"TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA"}


class FontChoice(NamedTuple):
    """Font families to try in turn, and the characters that none of them has."""

    families: tuple[str, ...]
    missing: frozenset[str]


def choose_fonts(texts: Iterable[str]) -> FontChoice:
    """Find families that together have all characters of the texts, as far as installed fonts do."""
    return _choose(frozenset(char for text in texts for char in text if _is_drawn(char)))


def notes(texts: Iterable[str], missing: Iterable[str], suffix: str) -> list[str]:
    """Say which characters will be missing or wrong in a figure of this file type."""
    found = []
    if gone := sorted(missing):
        effect = "show where the viewer has one" if suffix == ".svg" else "are drawn as boxes"
        found.append(
            f"No installed font has {_sample(gone)} ({', '.join(_scripts(gone))}): they {effect}. "
            f"Install one that has them, for example from the Debian package {' and '.join(_packages(gone))}."
        )
    broken = sorted({script(char) for text in texts for char in text} & _SHAPED)
    if broken and suffix != ".svg" and not shapes_text():
        import matplotlib

        found.append(
            f"matplotlib {matplotlib.__version__} writes {' and '.join(map(str.title, broken))} letters unjoined and in"
            " the wrong order: pip install -U 'matplotlib>=3.11', or save as .svg."
        )
    return found


def shapes_text() -> bool:
    """Return whether matplotlib shapes text and writes right to left (from 3.11 on, by libraqm)."""
    from matplotlib import ft2font

    return hasattr(ft2font, "__libraqm_version__")


def script(char: str) -> str:
    """Return the script from the character's Unicode name, such as `ARABIC`; `EMOJI` for pictographs."""
    if unicodedata.category(char) == "So" and ord(char) >= 0x1F000:
        return "EMOJI"
    name = unicodedata.name(char, "UNNAMED").split()[0]
    return "CJK" if name in ("IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH") else name


def are_truetype(families: Iterable[str]) -> bool:
    """Return whether all families are single TrueType files (.otf and .ttc may contain other outlines)."""
    return all(_path(family).lower().endswith(".ttf") for family in families)


def _is_drawn(char: str) -> bool:
    return not (char.isspace() or unicodedata.category(char) == "Cf" or 0xFE00 <= ord(char) <= 0xFE0F)


def _sample(chars: list[str]) -> str:
    shown = " ".join(chars[:8])
    return shown if len(chars) <= 8 else f"{shown} and {len(chars) - 8} more characters"


def _scripts(chars: list[str]) -> list[str]:
    return sorted({name if (name := script(char)) == "CJK" else name.lower() for char in chars})


def _packages(chars: list[str]) -> list[str]:
    names = {script(char) for char in chars}
    wanted = {
        "fonts-noto-cjk": names & _CJK,
        "fonts-symbola": names & {"EMOJI"},
        "fonts-noto-core": names - _CJK - {"EMOJI"},
    }
    return [package for package, needed in wanted.items() if needed]


@lru_cache(maxsize=64)
def _choose(chars: frozenset[str]) -> FontChoice:
    families, missing = [FIRST], chars - {chr(code) for code in _characters(FIRST)}
    for search in (_families, _new_families):
        for family in search(_region(chars)) if missing else ():
            if found := {char for char in missing if ord(char) in _characters(family)}:
                families.append(family)
                missing -= found
            if not missing:
                break
    return FontChoice(tuple(families), frozenset(missing))


def _region(chars: frozenset[str]) -> str:
    """Return the suffix of families for East Asian text: each country draws the same character differently."""
    names = {script(char) for char in chars}
    return "JP" if names & {"HIRAGANA", "KATAKANA"} else "KR" if "HANGUL" in names else "SC"


def _families(region: str) -> list[str]:
    """List the families that matplotlib knows, upright regular ones, plain sans-serif designs first."""
    from matplotlib import font_manager

    upright = (entry for entry in font_manager.fontManager.ttflist if entry.style == "normal")
    regular = {entry.name for entry in upright if str(entry.weight) in ("400", "normal", "regular", "book")}
    names = (name for name in regular if not name.startswith(_PRETENDERS))
    return sorted(
        names, key=lambda name: (not name.startswith("Noto Sans"), not name.endswith(region), "Sans" not in name, name)
    )


def _new_families(region: str) -> list[str]:
    """Add fonts that were installed after matplotlib cached its list; return all families."""
    from matplotlib import font_manager

    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):
        try:
            font_manager.fontManager.addfont(path)
        except Exception:  # skip unreadable fonts; FreeType's errors have no common type
            continue
    return _families(region)


def _path(family: str) -> str:
    """Return the file of a family's regular face."""
    from matplotlib import font_manager

    properties = font_manager.FontProperties(family=[family])
    return font_manager.findfont(properties, fallback_to_default=False)


@lru_cache(maxsize=16)
def _characters(family: str) -> frozenset[int]:
    """Return the code points that a family has glyphs for."""
    from matplotlib import font_manager

    try:
        font = font_manager.get_font(_path(family))
        return frozenset(font.get_charmap()) if font.scalable else frozenset()
    except Exception:  # colour bitmaps and broken files: FreeType's errors have no common type
        return frozenset()
