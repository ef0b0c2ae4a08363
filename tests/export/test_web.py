"""The page writes what regard writes: node compares tokenizer, search and labels; bench/web.py has a browser run it."""

import base64
import itertools
import json
import random
import re
import shutil
import subprocess
from dataclasses import asdict
from importlib.resources import files

import pytest
import torch

from decoding.toy_decoders import BOS, EOS, Oracle, sentences
from regard.config import DecodingConfig
from regard.data.builtin_corpora import corpora
from regard.data.tokenizers import BytePairs, Tagged, kinds
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.export.web_page import OWN, RUNTIME, export_web, vocabulary
from regard.viz.token_labels import friendly

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs node, which runs the page's scripts")
PAGE = files("regard.export.web")
ODD = "aé ▁\ufdd0\ufdd1猫🙂\t\u200b\x00ﬁ  .,<>e\u0301\u00a0\u2003\ufeff"


def run(script, given, folder):
    """Run a script with the page's modules; it has `given` and prints JSON."""
    (folder / "given.json").write_text(json.dumps(given))
    module = folder / "run.mjs"
    module.write_text(
        'import {readFileSync} from "node:fs";\n'
        f'const page = (name) => import("file://{PAGE}/" + name);\n'
        f'const given = JSON.parse(readFileSync("{folder}/given.json", "utf8"));\n{script}'
    )
    ran = subprocess.run([NODE, str(module)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


# -- tokens ------------------------------------------------------------------------------------------------------------

TOKENIZE = """
const {makeTokenizer} = await page("tokenizer.mjs"), own = makeTokenizer(given.told);
const labels = Array.from({length: given.told.size - given.told.tags.length - 4}, (_, at) => own.piece(at + 4));
const ids = given.texts.map((text) => own.encode(text)), texts = given.ids.map((ids) => own.decode(ids));
console.log(JSON.stringify({ids, texts, labels}));
"""


@pytest.fixture(scope="module")
def texts():
    draw = random.Random(1)
    real = [text for pair in corpora["phrasebook"]("test", 1500, 1) for text in (pair.source, pair.target)]
    odd = ["".join(draw.choices(ODD, k=draw.randint(0, 25))) for _ in range(400)]
    repeated = [letter * count for letter in "aelnst" for count in range(2, 14)]
    return real, [*real, *odd, *repeated, " ", "", "x" * 500]


@needs_node
@pytest.mark.parametrize("kind", [name for name in kinds if name != "lines"])
def test_texts_become_the_same_tokens_and_tokens_the_same_texts(kind, texts, tmp_path):
    doubled = ["aa ee ll nn ss tt aaa eee lll nnn sss ttt"] * 30  # several ways to cut are equally good
    own, draw = kinds[kind].train([*texts[0][:1000], *doubled], 900), random.Random(2)
    ids = [draw.choices(range(own.size), k=draw.randint(0, 12)) for _ in range(1500)]
    if hasattr(own, "byte_ids"):  # characters that are cut in two, and bytes that are none
        ids += [draw.choices([*own.byte_ids], k=draw.randint(1, 5)) for _ in range(500)]
        ids += own.encode_all(["🙂猫é\u0301ﬁ" * 3])
    found = run(TOKENIZE, {"told": vocabulary(own), "texts": texts[1], "ids": ids}, tmp_path)
    assert found["ids"] == own.encode_all(texts[1])
    assert found["texts"] == [own.decode([i for i in one if i > 3 or i == 1]) for one in ids]
    assert found["labels"] == own.pieces(range(4, own.size))


@needs_node
def test_a_tag_comes_first(texts, tmp_path):
    tagged = Tagged(BytePairs.train(texts[0][:200], 400), ["de", "fr"])
    script = TOKENIZE.replace("own.encode(text)", 'own.encode(text, "fr")')
    found = run(script, {"told": vocabulary(tagged), "texts": ["the cat"], "ids": [[tagged.size - 1, 300]]}, tmp_path)
    assert found["ids"] == tagged.encode_all(["<2fr> the cat"])
    assert found["texts"] == [tagged.decode([tagged.size - 1, 300])]


@needs_node
def test_labels_are_those_of_other_pages(texts, tmp_path):
    draw = random.Random(3)
    rows = [["".join(draw.choices(ODD, k=draw.randint(0, 3))) for _ in range(5)] for _ in range(200)]
    rows += [["▁the", "</s>", "ing", "▁"], ["a", "▁", "</s>"]]
    script = 'const {friendly} = await page("attention_view.mjs"), special = new Set(["</s>"]);\n'
    script += "console.log(JSON.stringify(given.map((row) => friendly(row, special))));"
    assert run(script, rows, tmp_path) == [[*friendly(row, {"</s>"})] for row in rows]


# -- search ------------------------------------------------------------------------------------------------------------

SEARCH = """
const {beamSearch, limitOf} = await page("beam_search.mjs");
const floats = (text) => new Float32Array(Uint8Array.from(Buffer.from(text, "base64")).buffer);
const tables = given.tables.map(
  ({logProbs, weights, ...sizes}) => ({says: floats(logProbs), looked: floats(weights), ...sizes}));
const found = [];
for (const {table, first, rules, options} of given.cases) {
  const {says, looked, size, looks, positions} = tables[table];
  let marks = [first];
  const step = (tokens, rows) => {
    marks = rows.map((row, place) => (marks[row] * 1009 + tokens[place] * 101 + 7) % 9973);
    return {
      logProbs: marks.map((mark) => says.slice(mark * size, (mark + 1) * size)),
      weights: marks.map((mark) => looked.slice(mark * looks, (mark + 1) * looks)),
    };
  };
  const limit = limitOf(rules, positions);
  found.push(await beamSearch(step, {...options, limit, positions, candidates: 2}));
}
console.log(JSON.stringify(found.map(({score, steps}) => ({score, tokens: steps.map(({token}) => token),
  logProbs: steps.map(({logProb}) => logProb), weights: steps.map(({weights}) => Array.from(weights)),
  thoughts: steps.map(({thoughts}) => thoughts)}))));
"""
RULES = {"longest": 0, "max_ratio": 2.0, "spare": 10, "most": None}
LENGTHS = (2, 5, 3)


def packed(tensor):
    return base64.b64encode(tensor.float().contiguous().numpy().tobytes()).decode()


def table(oracle, length):
    chances = oracle.scores[..., :length].softmax(dim=-1)
    sizes = {"size": oracle.size, "looks": chances[0].numel(), "positions": length}
    return {"logProbs": packed(oracle.logits.log_softmax(-1)), "weights": packed(chances), **sizes}


@needs_node
def test_the_search_is_that_of_the_package(tmp_path):
    oracles = [
        Oracle(7 + number, seed=number, layers=2, heads=1, sharpness=0.5 + number) for number in range(len(LENGTHS))
    ]
    cases, right = [], []
    settings = itertools.product((1, 2, 5), (0.0, 0.6, 2.0, -0.5), (0.0, 0.3), (0, 3), (0, 6), (0.0, 0.4))
    for number, (beam, alpha, beta, least, most, patience) in enumerate(settings):
        if number % 3:
            continue
        at = number % len(LENGTHS)
        options = DecodingConfig(
            beam=beam, length_penalty=alpha, coverage_penalty=beta, min_length=least, max_length=most, patience=patience
        )
        encoded = sentences([LENGTHS[at]], first=number)
        ((best,),) = search(oracles[at], encoded, options, bos=BOS, eos=EOS, banned=(0, 2))
        right.append((best, oracles[at]))
        own = {"start": BOS, "end": EOS, "banned": [0, 2], "minLength": least, "beam": beam, "patience": patience}
        rules = {**RULES, "max_length": most, "min_length": least}
        options = {**own, "lengthPenalty": alpha, "coveragePenalty": beta}
        cases.append({"table": at, "first": number, "rules": rules, "options": options})
    tables = [table(*one) for one in zip(oracles, LENGTHS, strict=True)]
    for found, (best, oracle) in zip(run(SEARCH, {"tables": tables, "cases": cases}, tmp_path), right, strict=True):
        assert found["tokens"] == best.tokens
        assert found["score"] == pytest.approx(best.score, abs=1e-4)
        assert found["logProbs"] == pytest.approx(list(best.log_probs), abs=1e-5)
        looked = torch.tensor(found["weights"]).view(len(best.tokens), oracle.layers, oracle.heads, -1)
        torch.testing.assert_close(looked, torch.as_tensor(best.weights).view_as(looked), atol=1e-5, rtol=0)
        tops = [max(thought["value"] for thought in step) for step in found["thoughts"]]
        assert all(top >= chosen - 1e-6 for top, chosen in zip(tops, found["logProbs"], strict=True))
    assert len({tuple(best.tokens) for best, _ in right}) > 20


@needs_node
def test_what_is_not_a_number_is_an_error(tmp_path):
    script = """
const {beamSearch} = await page("beam_search.mjs");
const step = () => ({logProbs: [Float32Array.of(0, NaN)], weights: null});
const rules = {beam: 2, start: 2, end: 1, banned: [], minLength: 0, limit: 5, positions: 1, lengthPenalty: 1};
console.log(JSON.stringify(await beamSearch(step, rules).catch((error) => error.message)));"""
    assert run(script, {}, tmp_path) == "The model's logits for token 1 are not finite: its weights are damaged."


# -- the folder --------------------------------------------------------------------------------------------------------


@pytest.fixture
def runtime(tmp_path):
    (tmp_path / "npm" / "dist").mkdir(parents=True)
    for name in RUNTIME:
        (tmp_path / "npm" / "dist" / name).write_text("//")
    return tmp_path / "npm"


def test_the_folder_has_all_that_the_page_fetches(folders, runtime, tmp_path, monkeypatch, exports):
    shipped = exports("translate")

    def export(folder, out, int8):  # made once for all tests
        shutil.copytree(shipped.folder, out)
        return shipped

    monkeypatch.setattr("regard.export.web_page.export_model", export)
    written = export_web(folders["translate"], tmp_path / "page", runtime)
    files = {str(path.relative_to(tmp_path / "page")) for path in (tmp_path / "page").rglob("*") if path.is_file()}
    beside = {f"onnxruntime/{name}" for name in RUNTIME} | {
        f"model/{n}" for n in ("encoder.onnx", "step.onnx", "model.json")
    }
    assert files == {*OWN, *beside, "page.css", "stepper.js", "export.json", "README.md"}
    assert written.model == sum((tmp_path / "page" / name).stat().st_size for name in files if name[:6] == "model/")
    about = json.loads((tmp_path / "page/model/model.json").read_text())
    assert about["source"]["units"][0] == "the"
    defaults = asdict(DecodingConfig())
    assert about["decoding"] == {name: defaults[name] for name in about["decoding"]}
    for name in OWN:  # only what lies beside it, and no script or style in the page itself
        text = (tmp_path / "page" / name).read_text()
        assert not re.search(r"https?://", text), name
        for found in re.findall(r'(?:from|import|href=|src=)\s*"(?:\./)?([^"]+)"', text):
            assert found in files or found == "data:,", (name, found)
    page = (tmp_path / "page/index.html").read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
    assert "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'" in policy
    assert "unsafe-inline" not in page
    assert not re.search(r"<style|<script>| on\w+=| style=", page)


def test_what_is_missing_is_told(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    get = (
        "Get it by npm install onnxruntime-web@1.30.0, and give its folder by --onnxruntime-web "
        "node_modules/onnxruntime-web."
    )
    with pytest.raises(ConfigError) as raised:
        export_web(folders["translate"], tmp_path / "page")
    said = f"The page needs onnxruntime-web, which is not in node_modules/onnxruntime-web. {get}"
    assert str(raised.value) == said
    with pytest.raises(ConfigError) as raised:
        export_web(folders["translate"], tmp_path / "page", tmp_path)
    said = f"{tmp_path} is not the npm package onnxruntime-web: it has no dist/{RUNTIME[0]}. {get}"
    assert str(raised.value) == said
    with pytest.raises(ConfigError, match=r"^--format web is for models that translate, but .* does not\."):
        export_web(folders["caption"], tmp_path / "page")
    assert not [*tmp_path.iterdir()]
