"""Write a Transformer as a package of Argos Translate, which LibreTranslate installs too.

A package is a zip archive of one folder: metadata.json, the model in CTranslate2's format, one SentencePiece model,
and a model that splits texts into sentences. Argos encodes sources and decodes translations by the same SentencePiece
model. It decodes pieces by their text, so the model of the source serves separate vocabularies as well.
"""

import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from regard import __version__
from regard.atomic_files import write_atomically
from regard.config import Config
from regard.data.tokenizers import INDEX, Tokenizers
from regard.decoding.model_loading import open_folders
from regard.errors import ConfigError
from regard.export.argos_sentence_splitter import sentence_splitter
from regard.export.ctranslate2_limits import check_representable
from regard.export.ctranslate2_model import Written, check_quantization, write_ctranslate2
from regard.models.model_folder import open_folder
from regard.models.seq2seq import Seq2Seq

SUFFIX = ".argosmodel"
ARGOS = "1.9"
"""The version of Argos Translate that reads such packages, with a MiniSBD model: this or a later one."""
VERSION = "100.0"
"""The version of a package. LibreTranslate replaces packages by newer ones of the same languages when it starts."""
CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})?")
NAMES = {
    "ar": "Arabic", "az": "Azerbaijani", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech",
    "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "ms": "Malay", "nb": "Norwegian",
    "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak",
    "sl": "Slovenian", "sq": "Albanian", "sv": "Swedish", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese", "zt": "Chinese (traditional)",
}  # fmt: skip
"""The names that Argos and LibreTranslate show for the codes of languages; another code is its own name."""
README = """# {source} to {target}

A translation model made by regard {version}{preset}, for Argos Translate and LibreTranslate:

```sh
pip install argostranslate
python -c "from argostranslate import package; package.install_from_path('{file}')"
argos-translate --from-lang {from_code} --to-lang {to_code} "…"
```

`model/` is in CTranslate2's format ({quantization}). `minisbd/` splits sentences by a few rules, so that nothing has to
be downloaded; a model of MiniSBD for the language may replace it.
"""


class Languages(NamedTuple):
    """The codes of the languages that a model reads and writes."""

    source: str
    target: str


def export_argos(
    folder: Path, out: Path, languages: Languages, *, quantization: str = "int8", overwrite: bool = False
) -> Written:
    """Write a model folder's Transformer as an Argos package, OUT.argosmodel; on failure nothing is left behind."""
    check_quantization(quantization)
    target = package_path(out)
    _check_target(target, overwrite)
    config = open_folder(folder)
    check_representable(config.model)
    opened = open_folders([folder], "cpu")
    _check_tokenizers(opened.tokenizers)
    assert isinstance(opened.model, Seq2Seq)
    with tempfile.TemporaryDirectory() as temporary:
        name = f"translate-{languages.source}_{languages.target}"
        inside = Path(temporary) / name
        (inside / "model").mkdir(parents=True)
        difference = write_ctranslate2(opened.model, opened.tokenizers, inside / "model", quantization)
        index = json.loads((folder / INDEX).read_bytes())
        shutil.copyfile(folder / index.get("source", index.get("joint"))["file"], inside / "sentencepiece.model")
        (inside / "minisbd").mkdir()
        (inside / "minisbd" / "rules.onnx").write_bytes(sentence_splitter())
        _describe(inside, languages, config, target.name, quantization)
        archive = Path(temporary) / target.name
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted(_files(inside)):
                packed.write(path, f"{name}/{path.relative_to(inside)}")
        content = archive.read_bytes()
    write_atomically(target, content)
    return Written(target, len(content), difference)


def package_path(out: Path) -> Path:
    """Return the file to write."""
    return out if out.name.endswith(SUFFIX) else out.with_name(out.name + SUFFIX)


def languages_of(config: Config, source: str, target: str) -> Languages:
    """Return the languages that were given, or that the model's settings have; raise a ConfigError without them."""
    own = config.data.from_language
    return Languages(
        _code("--from-language", "en", source or (own[0] if len(own) == 1 else "")),
        _code("--to-language", "fr", target or config.data.to_language),
    )


def _code(option: str, such: str, code: str) -> str:
    """Check the code of a language."""
    if not code:
        raise ConfigError(
            f"An Argos package names its languages, but this model does not know them: give {option} CODE, such as "
            f"{option} {such}."
        )
    if not CODE.fullmatch(code):
        raise ConfigError(f"{option} takes the ISO 639 code of a language, such as en or pt-BR; got {code!r}.")
    return code


def _check_target(target: Path, overwrite: bool) -> None:
    if target.is_dir():
        raise ConfigError(f"{target} is a folder; an Argos package is a file: give another name.")
    if target.exists() and not overwrite:
        raise ConfigError(f"{target} already exists. Replace it with --overwrite, or give another name.")


def _check_tokenizers(tokenizers: Tokenizers) -> None:
    """Refuse what a package has no place for."""
    for tokenizer in (tokenizers.source, tokenizers.target):
        if tokenizer.kind not in ("bpe", "unigram"):
            raise ConfigError(
                f"Argos packages hold a SentencePiece model, but tokenizer.kind is {tokenizer.kind}: only bpe or "
                "unigram can be packed. Use --format ctranslate2, or export it to ONNX."
            )
    if tokenizers.tags:
        raise ConfigError(
            f"An Argos package translates between two languages, but this model writes several, by tags "
            f"({', '.join(tokenizers.tags)}), which Argos cannot put before a source. Use --format ctranslate2."
        )


def _describe(inside: Path, languages: Languages, config: Config, file: str, quantization: str) -> None:
    source, target = (NAMES.get(code, code) for code in languages)
    metadata = {
        "package_version": VERSION,
        "argos_version": ARGOS,
        "from_code": languages.source,
        "from_name": source,
        "to_code": languages.target,
        "to_name": target,
    }
    (inside / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
    preset = f" (preset {config.preset})" if config.preset else ""
    codes = {"from_code": languages.source, "to_code": languages.target}
    text = README.format(
        source=source, target=target, version=__version__, preset=preset, file=file, quantization=quantization, **codes
    )
    (inside / "README.md").write_text(text, encoding="utf-8")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
