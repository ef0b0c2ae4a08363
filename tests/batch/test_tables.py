"""A column is translated as `regard translate` would, in tables of every kind, here and in other processes."""

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import regard
from regard.batch import Translate, tables
from regard.config_io import override
from regard.data.tokenizers import Tokenizers, Words
from regard.errors import ConfigError, DataError
from regard.presets import preset
from regard.viz.trace import AttentionTrace

TEXTS = ["a b c", "", "c", "b a", "a b c"]


@pytest.fixture(scope="module")
def model(make_folder, tmp_path_factory):
    words = Words(["a", "b", "c"])
    narrow = [f"model.{part}=8" for part in ("embedding", "encoder.width", "decoder.width", "decoder.readout_width")]
    folder = tmp_path_factory.mktemp("tables") / "model"
    return make_folder(folder, override(preset("bahdanau2014-small"), narrow), Tokenizers(words, words))


@pytest.fixture(scope="module")
def expected(model):
    return regard.load(model).translate(TEXTS, beam=3, n_best=3)


@pytest.fixture
def full(model):
    """All columns, after a way to another process."""
    made = Translate(model, source="en", target="fr", scores=True, attention=True, beam=3, n_best=3)
    return pickle.loads(pickle.dumps(made))


def check(columns, expected):
    """`columns` are lists; the first row has no text, the others are those expected."""
    assert [*columns] == ["en", "fr", "fr_score", "fr_n_best", "fr_n_best_scores", "fr_attention"]
    assert [one.text for one in expected] == columns["fr"][1:]
    assert [one.score for one in expected] == columns["fr_score"][1:]
    every = [(one, *one.n_best) for one in expected]
    assert [[other.text for other in own] for own in every] == [[*own] for own in columns["fr_n_best"][1:]]
    assert [[other.score for other in own] for own in every] == [[*own] for own in columns["fr_n_best_scores"][1:]]
    for one, told in zip(expected, columns["fr_attention"][1:], strict=True):
        trace = AttentionTrace.from_json(json.loads(told))
        assert trace.target == one.attention.target
        assert np.allclose(trace.weights, one.attention.weights, atol=1e-5)
    assert all(values[0] is None or values[0] != values[0] for values in columns.values())


def test_a_batch_of_arrays(full, expected):
    batch = {"en": np.array([None, *TEXTS], dtype=object)}
    found = full(batch)
    assert [*batch] == ["en"], "the batch was changed"
    assert found["fr_score"].dtype == float
    check({name: own.tolist() for name, own in found.items()}, expected)
    assert full({"en": np.array(TEXTS)})["fr"].tolist() == [one.text for one in expected]
    assert [len(own) for own in full({"en": np.array([], dtype=object)}).values()] == [0] * 6


def test_batches_one_after_the_other(full):
    batch = {"en": np.array(TEXTS)}
    found = full(iter([batch, batch]))
    assert next(found)["fr"].tolist() == next(found)["fr"].tolist()
    assert next(found, None) is None


def test_frames_of_pandas(full, expected):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"en": [None, *TEXTS]}, index=[5, 4, 3, 2, 1, 0])
    found = full(frame)
    assert found.index.tolist() == frame.index.tolist()
    check({name: found[name].tolist() for name in found.columns}, expected)


def test_tables_of_arrow(full, expected):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"en": [None, *TEXTS]})
    check(full(table).to_pydict(), expected)
    (batch,) = table.to_batches()
    found = full(batch)
    assert isinstance(found, arrow.RecordBatch)
    check(found.to_pydict(), expected)
    assert full(table[:1]).schema == found.schema, "a batch of nulls alone has other types"


def test_a_process_loads_a_model_once_and_again_when_it_has_changed(model, monkeypatch):
    from regard.decoding.translator import Translator

    loaded = []
    real = Translator.load
    monkeypatch.setattr(Translator, "load", lambda *given: loaded.append(given) or real(*given))
    tables._loaded.cache_clear()
    for _ in range(2):
        Translate(model, device="cpu")({"source": np.array(["a"])})
    assert len(loaded) == 1
    (model / "model.safetensors").touch()
    Translate(model, device="cpu")({"source": np.array(["a"])})
    assert len(loaded) == 2


def test_options_are_those_of_the_command(model):
    translate = partial(regard.load(model).translate, TEXTS)
    batch = {"source": np.array(TEXTS)}
    sampled = Translate(model, options=["decoding.method=sample", "decoding.seed=5"])(batch)["translation"].tolist()
    own = regard.load(model)
    from dataclasses import replace

    options = replace(own.options, method="sample", seed=5)
    assert sampled == [one.text for one in own.translate(TEXTS, options=options)]
    assert sampled != [one.text for one in translate()]
    forced = Translate(model, glossary={"c": "b"}, keep="a")(batch)["translation"].tolist()
    assert forced == [one.text for one in translate(glossary={"c": "b"}, keep="a")]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (
            {"sources": np.array(["a"])},
            "The batch has no column 'source' to translate; its columns: sources. Did you mean 'sources'?",
        ),
        ({"source": np.array(["a", 5], dtype=object)}, "Row 2 of the batch has 5 in column 'source', not a text."),
        (
            {"source": np.array(["a"]), "translation": np.array([""])},
            "The batch has a column 'translation' already: choose another name for target.",
        ),
        (
            ["a"],
            "A batch is list; it must be a dict of arrays, a DataFrame of pandas, a Table or RecordBatch of pyarrow, "
            "or an iterator of these.",
        ),
    ],
)
def test_batches_that_cannot_be_translated(model, batch, message):
    with pytest.raises(DataError) as caught:
        Translate(model)(batch)
    assert str(caught.value) == message


def test_refusals():
    with pytest.raises(ConfigError, match=r"^There is no model to load: name at least one model folder\.$"):
        Translate()
    with pytest.raises(ConfigError, match=r"^options is 'decoding\.seed=1'; it must be a list, such as \["):
        Translate("m", options="decoding.seed=1")


SESSION = """
import json, sys
from regard.batch import Translate
model, folder = sys.argv[1:]
texts = [text for text in json.loads(sys.stdin.read())]
"""
RAY = """
import ray, pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({"id": range(len(texts)), "en": texts}), folder + "/in.parquet")
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=1 << 27)
data = ray.data.read_parquet(folder + "/in.parquet").repartition(5)
data.map_batches(
    Translate, fn_constructor_args=[model], fn_constructor_kwargs={"source": "en", "target": "fr"},
    compute=ray.data.ActorPoolStrategy(size=2), batch_size=3,
).write_parquet(folder + "/out")
ray.data.read_parquet(folder + "/out").map_batches(
    Translate(model, source="en", target="again"), batch_format="pandas"
).write_json(folder + "/json")
import glob
lines = [json.loads(line) for path in glob.glob(folder + "/json/*") for line in open(path)]
print(json.dumps([[row["fr"], row["again"]] for row in sorted(lines, key=lambda row: row["id"])]))
"""
PATIENT = {"RAY_worker_register_timeout_seconds": "600", "RAY_raylet_start_wait_time_s": "120"}
"""With a machine that others use."""
SPARK = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.createDataFrame(list(enumerate(texts)), "id long, en string").repartition(3)
frame.write.parquet(folder + "/in")
schema = "id long, en string, fr string"
done = spark.read.parquet(folder + "/in").mapInPandas(Translate(model, source="en", target="fr"), schema=schema)
done = done.mapInArrow(Translate(model, source="en", target="again"), schema=schema + ", again string")
done.write.json(folder + "/out")
rows = spark.read.json(folder + "/out").orderBy("id").collect()
print(json.dumps([[row.fr or "", row.again or ""] for row in rows]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("package", "program"), [("ray", RAY), ("pyspark", SPARK)])
def test_engines_translate_as_one_process_does(model, tmp_path, package, program):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install {'ray[data]' if package == 'ray' else package}")
    texts = TEXTS * 7
    ran = subprocess.run(
        [sys.executable, "-c", SESSION + program, str(model), str(tmp_path)],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **PATIENT},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found == [[one.text, one.text] for one in regard.load(model).translate(texts)]
