"""Translating in bulk: shards of a file on many machines, worker processes on one, tables in Ray and Spark.

>>> from regard.batch import Translate
>>> dataset.map_batches(Translate("models/mine", source="english", target="french"))
"""

from regard.batch.tables import Translate

__all__ = ["Translate"]
