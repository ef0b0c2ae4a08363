"""Pictures as PNG, without Pillow: `regard.viz.png`, where it stands so that what is drawn can be written, too."""

from regard.viz.png import png

__all__ = ["png"]
