"""How good the translations are, and whether the model looks where it should."""
