"""Text classifiers from training to use, by the commands; and what users may give wrongly."""

import json
import shutil

import numpy as np
import pytest

from regard.config_io import override
from regard.data.class_labels import Labels
from regard.data.tokenizers import Tokenizers
from regard.models.model_folder import open_folder
from regard.presets.vision import visions
from regard.tasks.text_classification.predictor import TextLabeller
from regard.viz.trace import AttentionTrace

GOOD, BAD, OTHER = ("great", "lovely", "superb"), ("dull", "awful", "weak"), ("film", "plot", "scene", "actor", "music")
SMALL = {
    "tokenizer.kind": "words",
    "model.embedding": 7,
    "model.dropout": 0,
    "model.encoder.width": 11,
    "model.attention.width": 5,
    "training.warmup": 3,
    "training.batch_tokens": 200,
    "training.learning_rate": 0.03,
    "training.device": "cpu",
}


def options(changes):
    """Write settings as options; None leaves one out."""
    given = {name: value for name, value in changes.items() if value is not None}
    return tuple(part for name, value in given.items() for part in ("--set", f"{name}={value}"))


SMALL_PICTURES = ["model.image.size=16", "model.image.width=16", "model.image.units=1", "model.image.reduction=2"]
TINY = options(SMALL)
BLIND = options({**SMALL, "model.attention.width": None, "model.attention": "none"})
TEXTS = ["The film is dull. It has a plot.", "", "A superb scene. The actor is great. Lovely music.", "film"]


def texts(count, seed):
    """Make texts of two sentences, one of which tells the class."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        kind = int(random.integers(2))
        told = f"The {random.choice(OTHER)} is {random.choice((BAD, GOOD)[kind])}."
        rest = f"It has a {random.choice(OTHER)} and a {random.choice(OTHER)}."
        yield f"{told} {rest}" if random.integers(2) else f"{rest} {told}", ("very bad", "good")[kind]


@pytest.fixture(scope="session")
def labelled(once):
    def write(folder):
        folder.mkdir()
        for seed, (name, count) in enumerate([("train", 120), ("valid", 40)]):
            pairs = list(texts(count, seed))
            (folder / f"{name}.tsv").write_text("".join(f"{text}\t{kind}\n" for text, kind in pairs))
            (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text, _ in pairs))
            (folder / f"{name}.classes").write_text("".join(f"{kind}\n" for _, kind in pairs))
            lines = [json.dumps({"source": text, "target": kind}) for text, kind in pairs]
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")

    return once("labelled", write)


@pytest.fixture(scope="session")
def trained(once, commanded, labelled):
    """Train a classifier once, hierarchical or flat; its folder is not to be changed."""

    def make(kind):
        def run(folder):
            data = ("--data", labelled / "train.tsv", "--valid", labelled / "valid.tsv")
            preset = {"hierarchical": "yang2016-small"}.get(kind, "zhou2016-small")
            steps = ("--epochs", "6", "--set", "training.validate_every=20", *(BLIND if kind == "blind" else TINY))
            ran = commanded("train", "--preset", preset, *data, "--out", folder, *steps)
            assert ran.code == 0, ran.err

        return once(f"classifier-{kind}", run)

    return make


KINDS = pytest.mark.parametrize("kind", ["flat", "hierarchical"])


@KINDS
def test_it_learns_and_says_so(regard, trained, labelled, kind):
    ran = regard("evaluate", trained(kind), "--data", labelled / "valid.tsv", "--json")
    assert ran.code == 0, ran.err
    scores = {name: score["value"] for name, score in json.loads(ran.out)["scores"].items()}
    assert scores["accuracy"] > 90
    assert scores["macro F1"] == pytest.approx((scores["good"] + scores["very bad"]) / 2)


@KINDS
def test_line_i_is_about_text_i_and_as_python_has_it(regard, trained, kind):
    ran = regard("classify", trained(kind), "--top", "2", stdin="".join(f"{text}\n" for text in TEXTS).encode())
    assert ran.code == 0, ran.err
    expected = TextLabeller.load(trained(kind)).classify([text for text in TEXTS if text], top=2)
    lines = iter(expected)
    for text, line in zip(TEXTS, ran.lines, strict=True):
        said = ("\t".join(f"{one.probability:.4f}\t{one.label}" for one in next(lines).guesses)) if text else ""
        assert line == said
    assert [found.label for found in expected[:2]] == ["very bad", "good"]
    assert all(sum(guess.probability for guess in found.guesses) == pytest.approx(1, abs=1e-5) for found in expected)


@KINDS
def test_batch_mates_change_no_weight(trained, kind):
    labeller, several = TextLabeller.load(trained(kind)), [*TEXTS, "plot " * 50, "Music. " * 20]
    for found, text in zip(labeller.classify(several), several, strict=True):
        (alone,) = labeller.classify([text])
        np.testing.assert_allclose(found.attention.weights, alone.attention.weights, atol=1e-5)
        assert found.attention.source == alone.attention.source
        assert found.attention.weights.sum() == pytest.approx(1, abs=1e-5)


def test_a_token_has_the_weight_of_its_sentence_times_its_weight_within(trained):
    labeller = TextLabeller.load(trained("hierarchical"))
    (found,) = labeller.classify([TEXTS[2]])
    documents, seen = labeller._see([labeller._encode(TEXTS[2])])
    assert [sentence.tokens for sentence in found.sentences] == documents.lengths.tolist() == [3, 4, 3]
    expected = [
        float(seen.sentences[0, 0, place] * seen.words[place, 0, token])
        for place, length in enumerate(documents.lengths.tolist())
        for token in range(length)
    ]
    np.testing.assert_allclose(found.attention.look()[0], expected, atol=1e-6)
    assert sum(sentence.weight for sentence in found.sentences) == pytest.approx(1, abs=1e-5)


def test_words_are_shaded(regard, trained):
    given = f"{TEXTS[0]}\n{TEXTS[3]}\n".encode()
    ran = regard("classify", trained("flat"), "--attention", stdin=given)
    first, text, shades, between, second, *rest = ran.lines
    assert first.endswith("\tvery bad")
    assert text == "The film is dull. It has a plot. </s>"
    assert set(shades) <= set(" ░▒▓█")
    assert "█" in shades
    assert between == ""
    assert rest[0] == "film </s>"
    assert second[:2] in ("0.", "1.")
    coloured = regard("classify", trained("hierarchical"), "--attention", "--color", stdin=given)
    assert "\x1b[48;5;" in coloured.out
    shares = [line[:7] for line in coloured.lines[1:3]]
    assert all(share.strip().endswith("%") for share in shares)


@KINDS
def test_attend(regard, trained, here, kind):
    files = [f"look.{end}" for end in ("svg", "html", "json")]
    outs = [part for file in files for part in ("--out", file)]
    ran = regard("attend", trained(kind), TEXTS[0], *outs)
    assert ran.code == 0, ran.err
    assert ran.err == "".join(f"Wrote {file}\n" for file in files)
    assert ran.lines[0].endswith("\tvery bad")
    trace = AttentionTrace.from_json(json.loads((here / "look.json").read_text()))
    assert trace.target == ("very bad",)
    for file, titles in (("look.svg", 1), ("look.html", 2)):
        picture = (here / file).read_text()
        assert "dull." in picture
        assert "very bad" in picture
        assert picture.count("%</") == titles + {"flat": 0, "hierarchical": 2}[kind]  # a weight for each sentence


def test_attend_refuses_what_has_no_meaning(refused, trained):
    assert refused("attend", trained("flat"), "a film", "--head", "0") == (
        "--layer, --head and --heads are for models that write: here the mean of all heads is shown."
    )
    assert refused("attend", trained("blind"), "a film") == (
        f"{trained('blind')} has no attention (model.attention is none), so there is nothing to show."
    )
    assert refused("attend", trained("flat"), "a film", "--out", "look.png") == (
        "Cannot save look.png: files of kind '.png' cannot be written. Use one of .svg, .html, .json."
    )


def test_without_attention_it_classifies_all_the_same(regard, trained):
    ran = regard("classify", trained("blind"), stdin=f"{TEXTS[0]}\n".encode())
    assert ran.lines[0].endswith("\tvery bad")


def test_tsv_jsonl_and_two_files_make_the_same_model(regard, labelled, tmp_path):
    both = {"--source": "train.txt", "--target": "train.classes"}
    ways = [("--data", labelled / f"train.{end}") for end in ("tsv", "jsonl")]
    ways.append(tuple(part for name, file in both.items() for part in (name, labelled / file)))
    weights = []
    for place, way in enumerate(ways):
        ran = regard("train", "--preset", "yang2016-small", *way, "--set", "data.held_out=0", "--out",
                     tmp_path / str(place), *TINY, "--steps", "2")  # fmt: skip
        assert ran.code == 0, ran.err
        weights.append((tmp_path / str(place) / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] == weights[2]


@KINDS
def test_a_run_that_is_resumed_ends_with_the_same_weights(regard, labelled, trained, tmp_path, kind):
    data = ("--data", labelled / "train.tsv", "--set", "data.held_out=0")
    preset = ("--preset", {"flat": "zhou2016-small", "hierarchical": "yang2016-small"}[kind])
    dropout = ("--set", "model.dropout=0.3", "--set", "training.schedule=constant")
    for name, steps in (("whole", 8), ("parted", 5)):
        given = (*preset, *data, *TINY, *dropout, "--steps", str(steps))
        assert regard("train", *given, "--out", tmp_path / name).code == 0
    ran = regard("train", "--resume", "--out", tmp_path / "parted", "--steps", "8")
    assert ran.code == 0, ran.err
    whole, parted = ((tmp_path / name).rglob("*.safetensors") for name in ("whole", "parted"))
    whole, parted = ({path.name: path.read_bytes() for path in paths} for paths in (whole, parted))
    assert whole == parted
    assert whole


def test_fine_tuning_goes_on_with_the_same_classes(regard, trained, labelled, tmp_path):
    start = ("train", "--from", trained("flat"), "--valid", labelled / "valid.tsv", "--out")
    ran = regard(*start, tmp_path / "m", "--data", labelled / "valid.tsv", "--steps", "2", "--device", "cpu")
    assert ran.code == 0, ran.err
    kept, before = (Tokenizers.load(folder).target.names for folder in (tmp_path / "m", trained("flat")))
    assert kept == before
    (tmp_path / "new.tsv").write_text("a film\tgood\na plot\tso so\n" * 9)
    ran = regard(*start, tmp_path / "n", "--data", tmp_path / "new.tsv", "--steps", "2", "--device", "cpu")
    assert ran.err.splitlines()[-1] == (
        f"regard: Pair 2 of {tmp_path / 'new.tsv'} has the class 'so so', which {trained('flat')} does not have: "
        "good, very bad."
    )


def test_the_plan_chooses_a_classifier_of_texts(regard, labelled):
    ran = regard("train", "--data", labelled / "train.tsv", "--out", "m", "--plan", "--json", "--device", "cpu")
    assert ran.code == 0, ran.err
    plan = json.loads(ran.out)
    chosen = {choice["name"]: (choice["value"], choice["reason"]) for choice in plan["choices"]}
    assert chosen["preset"] == (
        "zhou2016-small",
        "2 different targets, each repeated: they are classes of the texts",
    )
    assert not {name for name in chosen if name.startswith(("decoding", "tokenizer.kind", "training.metric"))}


def test_a_class_that_was_held_out_alone_is_left_out_of_validation(regard, labelled, tmp_path):
    rows = (labelled / "train.tsv").read_text() + "".join(f"A {word} {word}.\tonly {word}\n" for word in OTHER * 9)
    lines = dict.fromkeys(rows.splitlines())
    (tmp_path / "own.tsv").write_text("\n".join(lines) + "\n")
    ran = regard("train", "--preset", "zhou2016-small", "--data", tmp_path / "own.tsv", "--out", tmp_path / "m",
                 "--set", "data.held_out=60", *TINY, "--steps", "2")  # fmt: skip
    assert ran.code == 0, ran.err
    assert " not validated with: no other text is of the same class." in ran.err
    assert "validation loss" in ran.err


def wrong(here, name, content):
    (here / name).write_text(content)
    return name


def test_what_is_wrong_with_a_corpus_is_said(regard, refused, labelled, here):
    start = ("train", "--preset", "yang2016-small", "--out", "m", *TINY)
    one = wrong(here, "one.tsv", "a film\tgood\na plot\tgood\n")

    def last(*given):
        ran = regard(*start, *given)
        assert ran.code == 2
        return ran.err.splitlines()[-1].removeprefix("regard: ")

    assert last("--data", one, "--set", "data.held_out=0") == (
        "one.tsv has a single class, 'good': there is nothing to tell apart."
    )
    strange = wrong(here, "strange.tsv", "a film\tgood\na plot\tgod\n")
    assert last("--data", labelled / "train.tsv", "--valid", strange) == (
        "Pair 2 of the validation corpus has the class 'god', which the training corpus does not have: good, very bad."
        " Did you mean 'good'?"
    )
    empty = wrong(here, "empty.tsv", "")
    assert refused(*start, "--data", empty) == "empty.tsv is empty: there is nothing to learn from."
    many = wrong(here, "many.tsv", "".join(f"a film {place}\tclass {place}\n" for place in range(40)))
    assert last("--data", many, "--set", "data.held_out=0", "--set", "tokenizer.vocabulary=20") == (
        "many.tsv has more different targets than the 16 that tokenizer.vocabulary leaves room for. Are they classes? "
        "To write targets instead, take a preset that translates (regard list presets)."
    )


def test_pictures_and_texts_are_not_mixed_up(refused, trained, labelled):
    assert refused("train", "--preset", "yang2016-small", "--data", "scenes:20", "--out", "m") == (
        "data.train=scenes:20 has pictures, and this model reads texts: take a preset that classifies pictures (regard "
        "list visions), such as --preset resnet-small."
    )
    flat = trained("flat")
    assert refused("classify", flat, "picture.png") == (
        f"{flat} classifies texts: give them by standard input (regard classify {flat} < texts)."
    )
    assert refused("translate", flat, stdin=b"a film\n") == f"{flat} holds a text classifier: use regard classify."
    assert refused("evaluate", flat, "--data", "scenes:20").startswith("scenes:20 has pictures")


def test_options_of_models_that_write_are_refused(refused, trained, labelled):
    start = ("train", "--preset", "zhou2016-small", "--data", labelled / "train.tsv", "--out", "m")
    assert refused(*start, "--set", "training.metric=bleu") == (
        "training.metric=bleu is not what this model's task is scored by: take accuracy, f1 or loss."
    )
    assert refused(*start, "--set", "training.r_drop=1").startswith("training.r_drop is 1.0, which the loss of model.")
    assert refused("evaluate", trained("flat"), "--data", labelled / "valid.tsv", "--beam", "3") == (
        f"Leave out --beam: {trained('flat')} holds a text classifier."
    )


def test_an_unknown_class_in_a_test_corpus(refused, trained, here):
    file = wrong(here, "new.tsv", "a film\tgood\na film\tvery bed\n")
    assert refused("evaluate", trained("flat"), "--data", file) == (
        "Pair 2 of new.tsv has the class 'very bed', which the model does not have: good, very bad. Did you "
        "mean 'very bad'?"
    )


def test_texts_that_are_too_long_are_left_out_or_cut_off(regard, labelled, trained, tmp_path, here):
    long = wrong(here, "long.tsv", (labelled / "train.tsv").read_text() + "film " * 500 + "\tgood\n")
    ran = regard("train", "--preset", "zhou2016-small", "--data", long, "--out", "m", *TINY, "--steps", "1",
                 "--set", "data.max_length=100", "--set", "data.held_out=0")  # fmt: skip
    assert "1 training pair left out: more than data.max_length = 100 tokens (the longest text has 500)." in ran.err
    shutil.rmtree("m")
    learned = {
        "model.encoder.kind": "transformer",
        "model.encoder.width": 16,
        "model.embedding": 16,
        "model.self_attention.heads": 2,
        "model.positions": "learned",
        "model.self_attention.longest": 20,
        "data.max_length": 19,
        "data.held_out": 0,
    }
    ran = regard("train", "--preset", "zhou2016-small", "--data", labelled / "train.tsv", "--out", "m", "--steps", "1",
                 *options({**SMALL, **learned}))  # fmt: skip
    assert ran.code == 0, ran.err
    labeller = TextLabeller.load("m")
    short, cut = labeller.classify(["film " * 5, "film " * 500])
    assert len(cut.attention.source) == 20
    assert len(short.attention.source) < 20


def test_a_folder_holds_what_it_is(trained):
    config = open_folder(trained("hierarchical"))
    assert config.model.hierarchical
    assert (config.tokenizer.target_kind, config.tokenizer.joint) == ("lines", False)


def test_a_classifier_of_pictures_takes_no_texts(refused, make_folder, here):
    clothes = make_folder(here / "clothes", override(visions["hu2017-se-small"](), SMALL_PICTURES), Labels(("a", "b")))
    assert refused("classify", clothes, "--attention", stdin=b"a film\n") == (
        f"--attention is for texts: regard attend {clothes} IMAGE shows what speaks for a class."
    )
    assert refused("classify", clothes, stdin=b"a film\n") == (
        "There is nothing to classify: give image files, or a folder of them."
    )
