"""Attention traces, and everything drawn from them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.viz.transformers_traces import TransformersTraces, from_transformers

__all__ = ["TransformersTraces", "from_transformers"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        import importlib

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(importlib.import_module(f"{__name__}.transformers_traces"), name)
        return found
