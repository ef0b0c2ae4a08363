"""Building blocks of models other than attention: embeddings, recurrent cells, dropout, readouts."""
