"""What the shell offers when Tab is pressed (`regard --install-completion`); quick, since it imports no torch."""

from regard.presets import presets
from regard.settings import describe

Choices = list[tuple[str, str]]


def preset_names(incomplete: str) -> Choices:
    """Offer presets."""
    return [(name, make.__doc__ or "") for name, make in presets.items() if name.startswith(incomplete)]


def assignments(incomplete: str) -> Choices:
    """Offer settings, ready for a value."""
    return [(f"{setting.name}=", setting.help) for setting in describe() if setting.name.startswith(incomplete)]


def decoding_assignments(incomplete: str) -> Choices:
    """Offer the settings that can be changed in a trained model, ready for a value."""
    return [(name, about) for name, about in assignments(incomplete) if name.startswith("decoding.")]


def devices(incomplete: str) -> list[str]:
    """Offer devices."""
    return [name for name in ("auto", "cpu", "cuda") if name.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """Offer what `regard list` can list."""
    from regard.cli.list import KINDS, SETTINGS

    return [kind for kind in (*KINDS, SETTINGS) if kind.startswith(incomplete)]
