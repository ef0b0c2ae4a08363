"""Run exported models with onnxruntime and NumPy: beam search, n-best lists and attention, without torch.

>>> import regard.runtime
>>> translator = regard.runtime.load("shipped")
>>> translation = translator.translate(["the red dress"], beam=5, n_best=3)[0]
>>> print(translation.text, translation.score, translation.attention.weights.shape)

The modules of this package import NumPy, each other and `regard.errors`; onnxruntime, SentencePiece and Pillow only
where they are needed. So the wheel `regard-runtime` consists of them alone, and every export has a copy.
"""

from regard.runtime.load import load
from regard.runtime.search_options import SearchOptions
from regard.runtime.text_labeller import Labelled, TextLabeller
from regard.runtime.trace import Trace
from regard.runtime.translator import Translation, Translator

__all__ = ["Labelled", "SearchOptions", "TextLabeller", "Trace", "Translation", "Translator", "load"]
