"""Complete configurations by the name of the paper that described the system, each with a `-small` sibling.

A preset is the paper's model. Where the paper's training is out of reach of one machine (vocabularies of 30,000 to
160,000 whole words, weeks of training), the tokenizer and the schedule are today's and only the network is the paper's.
"""

from regard.presets import gnmt, language_models, lstmn, recurrent, text_classification, transformer
from regard.presets.base import preset, presets

__all__ = ["gnmt", "language_models", "lstmn", "preset", "presets", "recurrent", "text_classification", "transformer"]
