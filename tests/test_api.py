"""`regard.load`, `train` and `evaluate`, as a program uses them; the commands call the same functions."""

from dataclasses import replace

import numpy as np
import pytest

import regard
from regard.config import AttentionConfig, Config, DataConfig, DecoderConfig, EncoderConfig, ModelConfig
from regard.config_io import override, read_toml
from regard.data.class_labels import Labels
from regard.data.pictures import PictureQuestion
from regard.data.question_vocabulary import QuestionVocabulary
from regard.data.tokenizers import Tokenizers, Words
from regard.data.tokenizers.whole_lines import Lines
from regard.presets.vision import visions
from regard.task_table import BY_NAME
from regard.viz.png import png

SOURCE = Words(["the", "red", "dress", "a", "cat"])
TARGET = Words(["la", "robe", "rouge", "un", "chat"])
LABELS = Labels(("boot", "bag", "coat"))
QUESTIONS = QuestionVocabulary.of([[PictureQuestion("is there a cat", "yes")]])
TEXTS = ModelConfig(
    embedding=11,
    encoder=EncoderConfig(width=7),
    decoder=DecoderConfig(width=13, readout_width=5),
    attention=AttentionConfig(width=3),
)
TINY = [
    *("tokenizer.kind=words", "tokenizer.joint=false", "model.embedding=5", "model.encoder.width=7"),
    *("model.decoder.width=11", "model.decoder.readout_width=5", "model.attention.width=3"),
]
SETTINGS = {name: int(value) if value.isdigit() else value for name, _, value in (one.partition("=") for one in TINY)}
SETTINGS["tokenizer.joint"] = False
PAIRS = [("a b", "b a"), ("b c", "c b"), ("c a", "a c"), ("a a", "a a")]
QUICK = {"preset": "bahdanau2014-small", "steps": 2, "device": "cpu", "quiet": True}


def vision(name, *changes):
    small = ("image.size=32", "image.width=16", "image.units=1")
    config = override(visions[name](), [f"model.{change}" for change in (*small, *changes)])
    return replace(config, data=DataConfig(train=("scenes:10",)))


def folder_for(task, make_folder, place):
    """Write the folder of a tiny untrained model for a task."""
    words, writer = Tokenizers(SOURCE, TARGET), ("embedding=8", "decoder.width=8", "decoder.readout_width=8")
    language = replace(TEXTS, encoder=EncoderConfig("none"), attention=None, decoder=DecoderConfig("luong", width=12))
    topics = ModelConfig(task="classify", embedding=5, encoder=EncoderConfig(width=7))
    config, vocabulary = {
        "translation": lambda: (Config(model=TEXTS), words),
        "language_modelling": lambda: (Config(model=language), Tokenizers(TARGET, TARGET)),
        "text_classification": lambda: (Config(model=topics), Tokenizers(SOURCE, Lines(["good", "bad"]))),
        "captioning": lambda: (vision("xu2015-soft-small", *writer, "attention.width=8"), words),
        "image_classification": lambda: (vision("hu2017-se-small", "image.reduction=2"), LABELS),
        "visual_questions": lambda: (vision("anderson2017-small"), QUESTIONS),
        "detection": lambda: (vision("carion2020-small", "decoder.width=16"), LABELS),
    }[task]()
    return make_folder(place / task, config, vocabulary)


@pytest.fixture
def pictures(tmp_path):
    """Two image files, of which one is not square."""
    generator, files = np.random.default_rng(1), []
    for name, (height, width) in {"square": (32, 32), "wide": (40, 80)}.items():
        files.append(tmp_path / f"{name}.png")
        files[-1].write_bytes(png(generator.integers(0, 255, (height, width, 3), dtype=np.uint8)))
    return files


def use(reader, pictures):
    """Use a model as its task is used, and return what there is for each of two inputs."""
    return {
        "translation": lambda: reader.translate(["the red dress", "a cat"]),
        "language_modelling": lambda: reader.translate(["la robe", "un"]),
        "text_classification": lambda: reader.classify(["the red dress", "a cat"]),
        "captioning": lambda: reader.caption(pictures),
        "image_classification": lambda: reader.classify(pictures),
        "visual_questions": lambda: reader.answer(pictures, [["is there a cat"], ["is there a cat"]]),
        "detection": lambda: reader.detect(pictures, least=0.0),
    }[reader.task]()


@pytest.mark.parametrize("task", BY_NAME)
def test_a_model_of_any_task_is_opened_and_used(task, make_folder, tmp_path, pictures):
    reader = regard.load(folder_for(task, make_folder, tmp_path))
    assert reader.task == task
    assert type(reader).__name__ in regard.__all__
    assert len(use(reader, pictures)) == 2


def test_things_in_a_file_are_in_its_pixels(make_folder, tmp_path, pictures):
    reader = regard.load(folder_for("detection", make_folder, tmp_path))
    (things,) = reader.detect(pictures[1], least=0.0)
    edges = np.array([thing.box for thing in things])
    assert edges[:, [0, 2]].min() >= 20  # the square in the middle of 40 × 80 pixels is what the model reads
    assert edges[:, [0, 2]].max() <= 60
    assert edges[:, [1, 3]].max() <= 40
    assert all(thing.mask is None or thing.mask.shape == (40, 80) for thing in things)


def test_several_folders_are_an_ensemble_and_other_tasks_are_refused(make_folder, tmp_path):
    one = folder_for("translation", make_folder, tmp_path)
    assert regard.load(one, str(one)).members == 2
    other = folder_for("image_classification", make_folder, tmp_path)
    with pytest.raises(regard.ModelError, match=r"^.*image_classification holds an image classifier: use regard"):
        regard.load(one, other)
    with pytest.raises(regard.ModelError, match=r"^There is no model to load: name at least one model folder\.$"):
        regard.load()


def test_pairs_in_memory_train_a_model_that_is_scored_on_others(tmp_path):
    out = tmp_path / "deep" / "model"
    result = regard.train(PAIRS, valid=iter(PAIRS[:2]), out=out, settings=SETTINGS, **QUICK)
    assert (result.folder, result.end, result.steps) == (out, "steps", 2)
    config = read_toml(out / "config.toml")
    assert config.data.train == (f"{out}.train.jsonl",)
    assert config.data.valid == (f"{out}.valid.jsonl",)
    translator = regard.load(out)
    assert translator.score(PAIRS[:1]) == translator.score(iter(PAIRS[:1]))
    report = regard.evaluate(translator, PAIRS)
    assert (report.data, report.sentences) == ("pairs in memory", 4)
    options = {"beam": 2, "settings": {"decoding.length_penalty": 0.5}}
    assert regard.evaluate(out, PAIRS, **options).search == "beam 2, length penalty 0.5, coverage penalty 0"
    assert translator.options == config.decoding, "the model's own options are as they were"


def test_settings_by_name_and_as_typed_make_the_same_model(tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    for name, settings in (("named", SETTINGS), ("typed", TINY)):
        data = tmp_path / "pairs.tsv"
        regard.train(data, valid=data, out=tmp_path / name, settings=settings, **QUICK)
    named, typed = (tmp_path / name for name in ("named", "typed"))
    assert read_toml(named / "config.toml") == read_toml(typed / "config.toml")
    assert (named / "model.safetensors").read_bytes() == (typed / "model.safetensors").read_bytes()
    assert capsys.readouterr() == ("", "")  # quiet


def test_a_run_that_is_refused_leaves_no_files(tmp_path):
    with pytest.raises(regard.ConfigError, match=r"^Unknown setting 'model\.droput'\. Did you mean 'model\.dropout'\?"):
        regard.train(PAIRS, valid=PAIRS, out=tmp_path / "m", settings={"model.droput": 0.1}, **QUICK)
    with pytest.raises(regard.DataError, match=r"^valid has 'b', which is no pair: "):
        regard.train(PAIRS, valid=iter(["b"]), out=tmp_path / "m", **QUICK)
    with pytest.raises(regard.DataError, match=r"^valid is one corpus: several that are to be one go into one file\.$"):
        regard.train(PAIRS, valid=["a.tsv", "b.tsv"], out=tmp_path / "m", **QUICK)
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_with_the_same_pairs_and_with_no_others(tmp_path):
    given = {**QUICK, "preset": None}
    regard.train(PAIRS, valid=PAIRS, out=tmp_path / "m", settings=SETTINGS, **QUICK)
    before = {path: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    with pytest.raises(regard.TrainingError, match=r"already holds a run\. Go on with it by --resume, replace it"):
        regard.train(PAIRS[:3], valid=PAIRS, out=tmp_path / "m", settings=SETTINGS, **QUICK)
    with pytest.raises(regard.TrainingError, match=r"m\.train\.jsonl has other pairs than were given, and the run "):
        regard.train(PAIRS[:3], valid=PAIRS, out=tmp_path / "m", resume=True, **given)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.jsonl")} == before
    assert regard.train(PAIRS, valid=PAIRS, out=tmp_path / "m", resume=True, **given).steps == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([("a", "b"), ("c",)], r"^data has \('c',\), which is no pair: give a file, an embedded corpus, or texts as "),
        ([1], r"^data has 1, which is no pair: "),
        ([], r"^data has no pairs\.$"),
    ],
)
def test_what_is_no_pair_is_refused(data, message, tmp_path):
    with pytest.raises(regard.DataError, match=message):
        regard.train(data, out=tmp_path / "m", quiet=True)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(regard.DataError, match=message):
        regard.evaluate(tmp_path, data)


def test_options_of_another_task_and_an_ensemble_of_what_is_open_are_refused(make_folder, tmp_path):
    folder = folder_for("image_classification", make_folder, tmp_path)
    for model, name in ((folder, folder), (regard.load(folder), "the model")):
        with pytest.raises(regard.ConfigError) as refused:
            regard.evaluate(model, "scenes:3", beam=2, layer=0)
        assert str(refused.value) == f"Leave out --layer and --beam: {name} holds an image classifier."
    with pytest.raises(regard.ConfigError, match=r"^An ensemble is opened from folders: load them together, or give "):
        regard.evaluate(regard.load(folder_for("translation", make_folder, tmp_path)), PAIRS, ensemble=[folder])
