"""`regard attend` of a translator: where it looks while it writes."""

from pathlib import Path

from regard.cli.attention_output import AttendRequest, check_files, show_trace
from regard.cli.options import search_options
from regard.data.pair import Pair
from regard.decoding.translator import Translator
from regard.viz.trace import FORMS


def attend(folder: Path, asked: AttendRequest) -> None:
    """Print and write the attention of a translation: the model's own, or a given one."""
    check_files(asked.out, FORMS)
    translator = Translator.load([folder, *asked.ensemble], asked.device)
    translator.options = options = search_options(translator.options, [*asked.changes])
    (sentence,) = translator.tokenizers.tag([asked.what], asked.to)
    if asked.target is None:
        best = translator.translate(
            [sentence],
            beam=asked.beam,
            prefix=[asked.prefix],
            candidates=5,
            options=options,
            posterior=asked.posterior,
        )[0]
        text, trace = best.text, best.attention
    else:
        text = asked.target
        trace = translator.align([Pair(sentence, text)], posterior=asked.posterior)[0]
    show_trace(text, trace, asked.out, asked.look)
