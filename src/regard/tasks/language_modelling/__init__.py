"""Language modelling: a translator without a source. It continues texts and is scored by perplexity."""
