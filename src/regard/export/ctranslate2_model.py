"""Write a Transformer in CTranslate2's format, with its vocabularies; CTranslate2 runs it without regard and torch."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard import __version__
from regard.atomic_files import folder_anew
from regard.config import Config
from regard.data.special_tokens import BOS, EOS, MARKS, UNK, tag_mark
from regard.data.tokenizers import Tagged, Tokenizer, Tokenizers
from regard.data.tokenizers.subwords import Subwords
from regard.decoding.model_loading import open_folders
from regard.errors import ConfigError, ModelError, did_you_mean
from regard.export.ctranslate2_limits import check_representable
from regard.export.ctranslate2_weights import transformer_spec
from regard.export.export_model import check_target
from regard.export.metadata import tokenized
from regard.export.verification import MOST
from regard.models.model_folder import open_folder
from regard.models.seq2seq import Seq2Seq
from regard.runtime.graphs import FORMAT, MANIFEST

QUANTIZATIONS = (
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
)
"""How weights can be stored; CTranslate2 converts them at loading to what the processor supports."""
LENGTHS = (11, 7), (1, 4), (6, 13)
"""Lengths of the random sources and targets that weights are verified with."""
README = """# A model that translates, for CTranslate2

```sh
pip install ctranslate2{needs}
```

{use}

The folder holds weights as {quantization}. The end token is added to a source by CTranslate2 (`add_source_eos` in
`config.json`), and generation starts from `<s>`.{tags}

`length_penalty=0` ranks hypotheses by their log-probability, as regard does with `decoding.length_penalty=0`. Other
values mean something else: CTranslate2 divides by `length ** length_penalty`, regard by
`((5 + length) / 6) ** length_penalty`.

`export.json` has the limits of the search in regard; `banned` are ids of tokens that it never writes.
"""
SUBWORDS = """```python
from pathlib import Path

import ctranslate2
import sentencepiece

folder = Path("{folder}")
translator = ctranslate2.Translator(str(folder), device="cpu")
source = sentencepiece.SentencePieceProcessor(model_file=str(folder / "{source}"))
target = sentencepiece.SentencePieceProcessor(model_file=str(folder / "{target}"))

pieces = source.encode(["{text}"], out_type=str)
for found in translator.translate_batch({given}, beam_size=5, length_penalty=0, {limits}, return_scores=True):
    print(target.decode(found.hypotheses[0]), found.scores[0])
```"""
UNITS = """```python
import ctranslate2

translator = ctranslate2.Translator("{folder}", device="cpu")
print(translator.translate_batch([{example}], beam_size=5, length_penalty=0, {limits})[0].hypotheses[0])
```

A source is a list of tokens of `{source}` ({kind})."""


class Written(NamedTuple):
    """The result of an export."""

    folder: Path
    size: int
    """Bytes of the weights."""
    difference: float
    """The largest difference of a log-probability between CTranslate2 and torch, in float32."""


def export_ctranslate2(folder: Path, out: Path, *, quantization: str = "float32", overwrite: bool = False) -> Written:
    """Write a model folder's Transformer for CTranslate2 and verify it; on failure nothing is left behind."""
    check_quantization(quantization)
    check_target(out, overwrite)
    config = open_folder(folder)
    check_representable(config.model)
    opened = open_folders([folder], "cpu")
    assert isinstance(opened.model, Seq2Seq)
    try:
        with folder_anew(out.absolute()) as building:
            difference = write_ctranslate2(opened.model, opened.tokenizers, building, quantization)
            beside = tokenized(folder, opened.tokenizers, opened.model, config, building)
            _write_manifest(building, config, beside, quantization, difference)
            _write_readme(building, out, opened.tokenizers, beside, quantization)
            size = (building / "model.bin").stat().st_size
    except OSError as error:
        error.filename = error.filename or str(out)
        raise
    return Written(out, size, difference)


def check_quantization(quantization: str) -> None:
    """Refuse an unknown quantization."""
    if quantization not in QUANTIZATIONS:
        raise ConfigError(
            f"--quantization must be one of {', '.join(QUANTIZATIONS)}, got {quantization!r}."
            f"{did_you_mean(quantization, QUANTIZATIONS)}"
        )


def write_ctranslate2(model: Seq2Seq, tokenizers: Tokenizers, out: Path, quantization: str = "float32") -> float:
    """Write weights and vocabularies; return the largest difference of a log-probability, in float32.

    Quantized weights differ by more, as they must: the same weights are verified before they are quantized.
    """
    _save(model, tokenizers, out, "float32")
    difference = _check(model, tokenizers, out)
    if quantization != "float32":
        for path in out.iterdir():
            path.unlink()
        _save(model, tokenizers, out, quantization)
    return difference


def _save(model: Seq2Seq, tokenizers: Tokenizers, out: Path, quantization: str) -> None:
    spec = transformer_spec(model)
    spec.register_source_vocabulary(vocabulary_of(tokenizers.source))
    spec.register_target_vocabulary(vocabulary_of(tokenizers.target))
    marks = {"unk_token": MARKS[UNK], "bos_token": MARKS[BOS], "eos_token": MARKS[EOS]}
    for name, value in {**marks, "decoder_start_token": MARKS[BOS], "add_source_eos": True}.items():
        setattr(spec.config, name, value)
    spec.config.layer_norm_epsilon = 1e-5  # torch's default
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(out))


def vocabulary_of(tokenizer: Tokenizer) -> list[str]:
    """Return the tokens by id, as SentencePiece writes them; raise a ModelError if two are the same."""
    plain = tokenizer.plain if isinstance(tokenizer, Tagged) else tokenizer
    own = plain.raw_pieces if isinstance(plain, Subwords) else plain.pieces(range(len(MARKS), plain.size))
    tokens = [*MARKS, *own[-(plain.size - len(MARKS)) :]]
    tokens += [tag_mark(tag) for tag in tokenizer.tags] if isinstance(tokenizer, Tagged) else []
    token, times = Counter(tokens).most_common(1)[0]
    if times > 1:
        raise ModelError(f"CTranslate2 tells tokens apart by their text, but two of this vocabulary are {token!r}.")
    return tokens


# -- verification ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def _check(model: Seq2Seq, tokenizers: Tokenizers, out: Path) -> float:
    """Compare the log-probabilities of random targets for random sources; raise a ModelError if they differ."""
    import ctranslate2

    random, sizes = torch.Generator().manual_seed(0), (tokenizers.source.size, tokenizers.target.size)
    pairs = [
        [
            torch.randint(len(MARKS), size, (length,), generator=random).tolist()
            for size, length in zip(sizes, lengths, strict=True)
        ]
        for lengths in LENGTHS
    ]
    read, written = vocabulary_of(tokenizers.source), vocabulary_of(tokenizers.target)
    translator = ctranslate2.Translator(str(out), device="cpu", compute_type="float32", intra_threads=1)
    scored = translator.score_batch(
        [[read[token] for token in source] for source, _ in pairs],
        [[written[token] for token in target] for _, target in pairs],
    )
    worst = 0.0
    for (source, target), found in zip(pairs, scored, strict=True):
        right = log_probs(model, source, target)
        difference = (right - torch.tensor(found.log_probs)).abs().max() / right.abs().max().clamp(min=1.0)
        worst = max(worst, float(difference.nan_to_num(torch.inf)))
    if worst > MOST:
        raise ModelError(f"The export is wrong: CTranslate2 and torch differ by {worst:.1e}. Nothing was written.")
    return worst


def log_probs(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> torch.Tensor:
    """Return the log-probability of each target token and of the end token."""
    model.eval()
    read = torch.tensor([[*source, EOS]])
    encoded = model.encode(read, torch.ones_like(read, dtype=torch.bool))
    taught = model.decoder.teach(torch.tensor([[BOS, *target]]), encoded)
    logits = model.decoder.project(taught.features)[0].float()
    return logits.log_softmax(dim=-1).gather(1, torch.tensor([*target, EOS])[:, None])[:, 0]


# -- what lies beside the weights --------------------------------------------------------------------------------------


def _write_manifest(out: Path, config: Config, beside: dict[str, Any], quantization: str, difference: float) -> None:
    import ctranslate2

    record = {
        "format": FORMAT,
        "made_by": f"regard {__version__}, torch {torch.__version__}",
        "task": "translate",
        "preset": config.preset or None,
        "runs_with": "ctranslate2",
        "quantization": quantization,
        "checked": {"with": f"ctranslate2 {ctranslate2.__version__}", "largest_difference": difference},
        **beside,
    }
    (out / MANIFEST).write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _write_readme(out: Path, name: Path, tokenizers: Tokenizers, beside: dict[str, Any], quantization: str) -> None:
    subwords = all(side["kind"] in ("bpe", "unigram") for side in (beside["source"], beside["target"]))
    files = {side: beside[side]["file"] for side in ("source", "target")}
    tags, search = tokenizers.tags, beside["search"]
    limits = f"min_decoding_length={search['min_length']}"
    limits += f", max_decoding_length={search['max_length']}" if search["max_length"] else ""
    if subwords:
        given = f'[["{tag_mark(tags[0])}", *text] for text in pieces]' if tags else "pieces"
        use = SUBWORDS.format(folder=name.name, text="a text", given=given, limits=limits, **files)
    else:
        example = vocabulary_of(tokenizers.source)[len(MARKS) : len(MARKS) + 3]
        use = UNITS.format(
            folder=name.name,
            example=json.dumps(example, ensure_ascii=False),
            limits=limits,
            kind=beside["source"]["kind"],
            **files,
        )
    told = f" A source begins with the tag of the language to write: {', '.join(map(tag_mark, tags))}." if tags else ""
    needs = " sentencepiece" if subwords else ""
    text = README.format(needs=needs, use=use, quantization=quantization, tags=told)
    (out / "README.md").write_text(text, encoding="utf-8")
