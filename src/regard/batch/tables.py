"""Translating a column of a table: in Ray Data, Spark or pandas, a batch at a time in any process."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    from regard.decoding.translation import Translation
    from regard.decoding.translator import Translator

LOADED = 4
"""Models that a process keeps."""


class Translate:
    """Translate a column: a function of a batch, for `map_batches` of Ray Data and `mapInPandas` of Spark.

    A batch is a dict of NumPy arrays, a pandas DataFrame, or a Table or RecordBatch of pyarrow; it comes back in the
    same form with more columns. An iterator of batches becomes an iterator, as Spark has it. Nothing is translated as
    nothing: where the text is null, so are the new columns.

    | column | holds | there |
    |---|---|---|
    | `TARGET` | the translation | always |
    | `TARGET_score` | its score, a float | with `scores` |
    | `TARGET_n_best` | a list of the best translations | with `n_best` above 1 |
    | `TARGET_n_best_scores` | a list of their scores | with both |
    | `TARGET_attention` | tokens and attention weights as JSON, for `AttentionTrace.from_json` | with `attention` |

    A process loads the model when its first batch comes, and keeps it. The object itself holds names and options only,
    so it can be sent to other machines; the model folder must be there under the same path.
    """

    def __init__(
        self,
        *models: str | Path,
        source: str = "source",
        target: str = "translation",
        scores: bool = False,
        attention: bool = False,
        beam: int | None = None,
        n_best: int = 1,
        batch_size: int | None = None,
        options: Sequence[str] = (),
        fast: bool = False,
        to: str | None = None,
        keep: str | None = None,
        glossary: "Mapping[str, str] | str | Path | None" = None,
        device: str = "auto",
    ) -> None:
        """Several models translate as an ensemble.

        Options are those of `regard translate`; `options` are what `--set` takes (`["decoding.method=sample"]`), and a
        `glossary` is a mapping or the name of a file.
        """
        if not models:
            raise ConfigError("There is no model to load: name at least one model folder.")
        if isinstance(options, str):
            raise ConfigError(f"options is {options!r}; it must be a list, such as [{options!r}].")
        self._models = tuple(str(Path(model).absolute()) for model in models)
        self._source, self._target = source, target
        self._scores, self._attention = scores, attention
        self._beam, self._n_best, self._batch_size = beam, n_best, batch_size
        self._options, self._fast, self._to, self._keep, self._device = tuple(options), fast, to, keep, device
        if isinstance(glossary, str | Path):
            from regard.decoding.terminology.glossary import read_glossary

            glossary = read_glossary([str(glossary)])
        self._glossary = None if glossary is None else dict(glossary)

    def __call__(self, batch: Any) -> Any:
        """Translate a batch, or each batch of an iterator."""
        if isinstance(batch, Mapping):
            import numpy as np

            return {**batch, **{name: _objects(np, own) for name, own in self._columns(batch, [*batch]).items()}}
        kind = type(batch).__module__.split(".")[0]
        if kind == "pandas":
            return batch.assign(**self._columns(batch, list(batch.columns)))
        if kind == "pyarrow":
            return self._in_arrow(batch)
        if isinstance(batch, Iterator):
            return map(self, batch)
        raise DataError(
            f"A batch is {type(batch).__name__}; it must be a dict of arrays, a DataFrame of pandas, a Table or "
            "RecordBatch of pyarrow, or an iterator of these."
        )

    def _in_arrow(self, batch: Any) -> Any:
        pa = sys.modules["pyarrow"]  # whose batch this is
        text, number = pa.string(), pa.float64()
        kinds = {"_score": number, "_n_best": pa.list_(text), "_n_best_scores": pa.list_(number)}
        for name, values in self._columns(batch, batch.column_names).items():
            batch = batch.append_column(name, pa.array(values, kinds.get(name.removeprefix(self._target), text)))
        return batch

    def _columns(self, batch: Any, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return the columns that a batch gains."""
        if self._source not in names:
            there = ", ".join(map(str, names)) or "none"
            hint = did_you_mean(self._source, map(str, names))
            raise DataError(f"The batch has no column {self._source!r} to translate; its columns: {there}.{hint}")
        readers = self._readers()
        taken = next((name for name in readers if name in names), None)
        if taken is not None:
            raise DataError(f"The batch has a column {taken!r} already: choose another name for target.")
        texts = [_text(row, value, self._source) for row, value in enumerate(_values(batch[self._source]))]
        found = iter(self._translate([text for text in texts if text is not None]))
        every = [None if text is None else next(found) for text in texts]
        return {name: [None if one is None else read(one) for one in every] for name, read in readers.items()}

    def _readers(self) -> "dict[str, Callable[[Translation], Any]]":
        """Return what is in each new column."""
        own: dict[str, Callable[[Translation], Any]] = {"": lambda best: best.text}
        if self._scores:
            own["_score"] = lambda best: best.score
        if self._n_best > 1:
            own["_n_best"] = lambda best: [one.text for one in (best, *best.n_best)]
        if self._n_best > 1 and self._scores:
            own["_n_best_scores"] = lambda best: [one.score for one in (best, *best.n_best)]
        if self._attention:
            own["_attention"] = lambda best: json.dumps(best.attention.to_json(), ensure_ascii=False)
        return {self._target + name: read for name, read in own.items()}

    def _translate(self, texts: list[str]) -> "Iterator[Translation]":
        from regard.config_io import search_options

        translator = _translator(self._models, self._device)
        own = translator.faster() if self._fast else translator.options
        return translator.stream(
            texts,
            beam=self._beam,
            n_best=self._n_best,
            batch_size=self._batch_size,
            options=search_options(own, self._options),
            to=self._to,
            look=self._attention,
            keep=self._keep,
            glossary=self._glossary,
        )


def _translator(models: tuple[str, ...], device: str) -> "Translator":
    """Return what this process has loaded; anew where weights have changed."""
    from regard.models.model_folder import WEIGHTS

    weights = [Path(model) / WEIGHTS for model in models]
    return _loaded(models, device, tuple(path.stat().st_mtime_ns if path.is_file() else 0 for path in weights))


@lru_cache(LOADED)
def _loaded(models: tuple[str, ...], device: str, written: tuple[int, ...]) -> "Translator":
    from regard.decoding.translator import Translator

    return Translator.load(models, device)


def _values(column: Any) -> list[Any]:
    """Return the values of a column of any kind, as Python has them."""
    for method in ("to_pylist", "tolist"):
        if hasattr(column, method):
            values: list[Any] = getattr(column, method)()
            return values
    return list(column)


def _text(row: int, value: Any, name: str) -> str | None:
    """Return a text; None for what stands for a missing one (None, NaN, NA)."""
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    raise DataError(f"Row {row + 1:,} of the batch has {value!r} in column {name!r}, not a text.")


def _objects(np: Any, values: list[Any]) -> Any:
    """Make an array of a column: numbers where all are, and otherwise of objects, lists among them."""
    if any(isinstance(value, float) for value in values):
        return np.array([np.nan if value is None else value for value in values])
    made = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        made[row] = value
    return made
