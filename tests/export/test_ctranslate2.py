"""CTranslate2 writes what regard writes, with every Transformer that it can represent; the others are refused."""

import json
import re
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from regard.cli.export import export as export_command
from regard.config import Config, DecodingConfig
from regard.config_io import override, to_toml
from regard.data.tokenizers import BytePairs, Characters, Tagged, Tokenizers, Words
from regard.decoding.translator import Translator, banned_tokens
from regard.errors import ConfigError, ModelError
from regard.export.ctranslate2_limits import check_representable
from regard.models.build import build_model
from regard.models.model_folder import weights_of
from regard.presets import preset

ctranslate2 = pytest.importorskip("ctranslate2", reason="pip install 'regard[export]'")
from regard.export import ctranslate2_weights  # noqa: E402
from regard.export.ctranslate2_model import export_ctranslate2, vocabulary_of  # noqa: E402

SOURCE, TARGET = Words([f"s{i}" for i in range(37)]), Words([f"t{i}" for i in range(41)])
WIDTH = 24
BASE = override(
    preset("transformer2017-small"),
    [
        *(f"model.{part}={WIDTH}" for part in ("embedding", "encoder.width", "decoder.width")),
        *("model.encoder.layers=2", "model.decoder.layers=3", "model.encoder.feed_forward=31"),
        *("model.decoder.feed_forward=29", "model.tie=none"),
    ],
)
ONE_HEAD = ("attention.heads=1", "self_attention.heads=1")
VARIANTS = {
    "pre-norm": (),
    "tied to the output": ("tie=output",),
    "all tied": ("tie=all",),
    "post-norm": ("encoder.norm=post", "decoder.norm=post"),
    "mixed norms": ("encoder.norm=post",),
    "learned positions": ("positions=learned", "self_attention.longest=40"),
    "no positions": ("positions=none",),
    "rotary": ("positions=rotary",),
    "shaw": ("positions=shaw",),
    "gelu": ("encoder.activation=gelu", "decoder.activation=gelu"),
    "one head": ONE_HEAD,
    "three heads": ("attention.heads=3", "self_attention.heads=3"),
    "no projections": (*ONE_HEAD, "attention.project=false", "self_attention.project=false"),
    "values": (*ONE_HEAD, "attention.project=false", "attention.values=true", "attention.score=general"),
    "groups": ("self_attention.groups=2", "attention.groups=1"),
    "dot": ("self_attention.score=dot", "attention.score=dot"),
    "general, shaw, groups": ("self_attention.score=general", "positions=shaw", "self_attention.groups=2"),
    "general, rotary": ("self_attention.score=general", "attention.score=general", "positions=rotary"),
    "temperatures": ("self_attention.temperature=0.7", "attention.learn_temperature=true"),
    "pruned": ('self_attention.pruned=["0.1"]', 'attention.pruned=["2.3","1.0"]'),
}


def write_folder(folder, changes=(), tokenizers=None, end=-40.0):
    """Write a model of random weights.

    It writes no special tokens: an end token would come at once or never, and a translation is cut off at 9 tokens.
    """
    config = override(BASE, [f"model.{change}" for change in changes])
    config = Config(model=config.model, preset="", decoding=DecodingConfig(length_penalty=0.0, max_length=9))
    tokenizers = tokenizers or Tokenizers(SOURCE, TARGET if config.model.tie != "all" else SOURCE)
    torch.manual_seed(3)
    model = build_model(config.model, tokenizers.source.size, tokenizers.target.size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
        bias = model.decoder.output.bias
        bias[:3], bias[3] = -40.0, end
        bias[list(banned_tokens(tokenizers.target))] = -40.0
    folder.mkdir()
    (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")
    save_file({name: tensor.contiguous() for name, tensor in weights_of(model).items()}, folder / "model.safetensors")
    tokenizers.save(folder)
    return folder


def sources(count=12):
    draw = torch.Generator().manual_seed(5)
    return [" ".join(f"s{i}" for i in torch.randint(37, (1 + n % 9,), generator=draw).tolist()) for n in range(count)]


@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_translations_and_scores(name, tmp_path):
    folder, out = write_folder(tmp_path / "m", VARIANTS[name]), tmp_path / "out"
    assert export_ctranslate2(folder, out).difference < 1e-5
    texts = sources()
    right = Translator.load(folder).translate(texts, beam=5)
    translator = ctranslate2.Translator(str(out), device="cpu", compute_type="float32", intra_threads=1)
    pieces = [text.split() for text in texts]
    found = translator.translate_batch(
        pieces, beam_size=5, length_penalty=0, max_decoding_length=9, min_decoding_length=0, return_scores=True
    )
    assert [" ".join(one.hypotheses[0]) for one in found] == [one.text for one in right]
    assert [one.scores[0] for one in found] == pytest.approx([one.score for one in right], abs=1e-4)
    assert len({one.text for one in right}) > 2


def test_wrong_weights_are_found_and_nothing_is_left(tmp_path, monkeypatch):
    folder, out = write_folder(tmp_path / "m", VARIANTS["dot"]), tmp_path / "out"
    monkeypatch.setattr(ctranslate2_weights, "_scales", lambda attention, heads, width: torch.ones(heads))
    with pytest.raises(ModelError, match=r"^The export is wrong: CTranslate2 and torch differ by .* Nothing was"):
        export_ctranslate2(folder, out)
    assert not out.exists()


LEFT = " Export it to ONNX instead: leave out --format."
REFUSED = {
    "positions=alibi": "model.positions is alibi, and it has only none or sinusoidal or learned or rotary or shaw.",
    "copy=true": "model.copy is true, and it has only false.",
    "reverse_source=true": "model.reverse_source is true, and it has only false.",
    "encoder.kind=recurrent": "model.encoder.kind is recurrent, and it has only transformer.",
    "decoder.kind=luong": "model.decoder.kind is luong, and it has only transformer.",
    "attention.score=additive": "model.attention.score is additive, and it has only scaled-dot or dot or general.",
    "self_attention.focus=sparsemax": "model.self_attention.focus is sparsemax, and it has only softmax.",
    "self_attention.reach=window": "model.self_attention.reach is window, and it has only global.",
    "attention.coverage=see2017": "model.attention.coverage is see2017, and it has only none.",
    "attention.heads=2": "model.attention.heads is 2, and it has only 4.",
    "self_attention.head_width=10": "model.self_attention.head_width is 10, and it has only 0 or 6.",
    "encoder.kind=none": "model.encoder.kind is none, and it has only transformer.",
    "task=classify": "model.task is classify, and it has only write.",
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_it_cannot_represent_is_refused_by_its_setting(change):
    config = override(BASE, [f"model.{change}"])
    with pytest.raises(ConfigError) as raised:
        check_representable(config.model)
    assert str(raised.value) == f"CTranslate2 cannot represent this model: {REFUSED[change]}{LEFT}"


def test_a_refusal_leaves_what_is_there(tmp_path):
    folder, out = write_folder(tmp_path / "m"), tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="exists and is not an export"):
        export_ctranslate2(folder, out, overwrite=True)
    with pytest.raises(ConfigError) as raised:
        export_ctranslate2(folder, tmp_path / "new", quantization="int9")
    assert str(raised.value) == (
        "--quantization must be one of float32, float16, bfloat16, int16, int8, int8_float32, int8_float16, "
        "int8_bfloat16, got 'int9'. Did you mean 'int8'?"
    )
    assert [path.name for path in tmp_path.iterdir() if path.name != "m"] == ["out"]


def test_weights_are_stored_as_asked(tmp_path):
    folder = write_folder(tmp_path / "m")
    sizes = {}
    for kind in ("float32", "int8", "float16"):
        sizes[kind] = export_ctranslate2(folder, tmp_path / kind, quantization=kind).size
        assert json.loads((tmp_path / kind / "export.json").read_text())["quantization"] == kind
        assert ctranslate2.Translator(str(tmp_path / kind), device="cpu").translate_batch([["s1"]])
    assert sizes["int8"] < 0.8 * sizes["float32"]
    assert sizes["float16"] < 0.6 * sizes["float32"]


ALONE = "import sys; sys.modules['regard'] = sys.modules['torch'] = None\n"


def example(readme):
    """The Python code of a README."""
    return re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]


@pytest.fixture(scope="module")
def pieces():
    return BytePairs.train(["the red dress is old", "a cat", "la robe rouge est vieille", "un chat"] * 9, 320)


def test_the_example_of_the_readme_runs_alone(tmp_path, pieces):
    folder = write_folder(tmp_path / "m", ("tie=all",), Tokenizers(pieces, pieces))
    export_command(folder, tmp_path / "out", format="ctranslate2")
    best = Translator.load(folder).translate(["a text"], beam=5)[0]
    code = example((tmp_path / "out" / "README.md").read_text())
    ran = subprocess.run([sys.executable, "-c", ALONE + code], cwd=tmp_path, capture_output=True, text=True, check=True)
    text, _, score = ran.stdout.rstrip("\n").rpartition(" ")
    assert text == best.text
    assert float(score) == pytest.approx(best.score, abs=1e-4)


def test_tags_come_first(tmp_path, pieces):
    sides = Tagged(pieces, ["de", "fr"]), Tagged(pieces, ["de", "fr"], reads=False)
    folder = write_folder(tmp_path / "m", ("tie=all",), Tokenizers(*sides))
    export_ctranslate2(folder, tmp_path / "out")
    right = [Translator.load(folder).translate([f"<2{tag}> a red cat"], beam=5)[0].score for tag in ("de", "fr")]
    translator = ctranslate2.Translator(str(tmp_path / "out"), device="cpu", compute_type="float32")
    read = [vocabulary_of(pieces)[i] for i in pieces.encode("a red cat")]
    found = translator.translate_batch(
        [["<2de>", *read], ["<2fr>", *read]],
        beam_size=5,
        length_penalty=0,
        max_decoding_length=9,
        min_decoding_length=0,
        return_scores=True,
    )
    assert [one.scores[0] for one in found] == pytest.approx(right, abs=1e-4)
    assert right[0] != right[1]
    assert '[["<2de>", *text] for text in pieces]' in (tmp_path / "out" / "README.md").read_text()


def test_tokens_that_look_the_same_are_refused():
    with pytest.raises(ModelError) as raised:
        vocabulary_of(Characters([" ", "a", "▁"]))
    assert str(raised.value) == "CTranslate2 tells tokens apart by their text, but two of this vocabulary are '▁'."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"format": "onxx"}, "--format must be one of onnx, ctranslate2, argos, web, got 'onxx'. Did you mean 'onnx'?"),
        ({"quantization": "int9"}, "--quantization is 'int9'; --format onnx has float32 and int8."),
        ({"format": "web", "to_language": "fr"}, "--to-language is for --format argos, not for web."),
    ],
)
def test_options_of_another_format_are_refused(tmp_path, given, said):
    with pytest.raises(ConfigError) as raised:
        export_command(tmp_path, tmp_path / "out", **given)
    assert str(raised.value) == said


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ConfigError, match=r"^regard export needs ctranslate2: pip install 'regard\[export\]'\.$"):
        export_command(tmp_path, tmp_path / "out", format="ctranslate2")
