"""Building blocks of models that are not attention: cells, dropout, readouts."""
