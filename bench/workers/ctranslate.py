"""CTranslate2, which translates only: regard's Transformer, as `regard export --format ctranslate2` writes it."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from talk import Boss, Task, serve, toolkit


def decode(boss: Boss, task: Task) -> None:
    """Translate: many sentences by as many workers as there are threads, one sentence by one with all threads."""
    library, folder = toolkit("ctranslate2"), task["folder"]
    kind = {"device": "cpu", "compute_type": task["precision"]}
    many = library.Translator(folder, inter_threads=task["threads"], intra_threads=1, **kind)
    # One sentence has too little work in int8 for a second thread to pay.
    alone = task["threads"] if task["precision"] == "float32" else 1
    single = library.Translator(folder, inter_threads=1, intra_threads=alone, **kind)

    def translate(lines: Sequence[str], beam: int) -> list[list[str]]:
        translator: Any = single if len(lines) == 1 else many
        found = translator.translate_batch(
            [line.split(" ") for line in lines],
            beam_size=beam,
            max_batch_size=task["batch"],
            max_decoding_length=task["longest"],
            length_penalty=task["length_penalty"],
        )
        return [one.hypotheses[0] for one in found]

    serve(boss, translate, version=library.__version__, torch="-", parameters=0)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    decode(Boss(), given)
