"""`regard align`."""

from dataclasses import replace

from regard.cli.options import (
    Batch,
    Data,
    Device,
    Head,
    Layer,
    Model,
    Posterior,
    ReverseModel,
    Shift,
    Source,
    Symmetrise,
    Target,
    To,
    With,
    check_at_least,
)
from regard.data.corpus_arguments import corpus_parts
from regard.errors import DataError


def align(
    model: Model,
    with_: With = None,
    data: Data = None,
    source: Source = None,
    target: Target = None,
    layer: Layer = None,
    head: Head = None,
    shift: Shift = False,
    posterior: Posterior = False,
    reverse_model: ReverseModel = None,
    symmetrise: Symmetrise = None,
    to: To = None,
    batch: Batch = None,
    device: Device = "auto",
) -> None:
    """Align the words of sentence pairs by a model's attention.

    One line per pair in Pharaoh format, such as 0-0 1-2 2-1: source word, target word, both counted from 0. Pass the
    output to regard train --alignments to guide the attention of another model.
    """
    check_at_least(1, batch=batch)
    parts = corpus_parts(data, source, target)
    if not parts:
        raise DataError("There is nothing to align: give --data, or --source and --target.")
    from regard.data.corpus import for_model, open_corpus
    from regard.decoding.translator import Translator
    from regard.evaluation.alignment_error_rate import alignment_reading
    from regard.evaluation.word_alignment import align as run

    reading = alignment_reading(layer, head, shift, posterior, reverse_model, symmetrise)
    corpus = open_corpus(parts)
    translator = Translator.load([model, *(with_ or [])], device)
    reverse = None if reverse_model is None else Translator.load(reverse_model, device)
    tag = translator.tokenizers.tag
    tag([], to)  # fail early on a tag that the model does not know
    pairs = for_model(corpus, translator.model.reads)
    tagged = (replace(pair, source=tag([pair.source], to)[0]) for pair in pairs)
    for links in run(translator, tagged, batch, reading, reverse):
        print(" ".join(f"{source}-{target}" for source, target in sorted(links)), flush=True)
