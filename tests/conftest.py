"""Shapes are checked while tests run: every annotation of the package is enforced by jaxtyping and beartype."""

from jaxtyping import install_import_hook

install_import_hook("regard", "beartype.beartype")
