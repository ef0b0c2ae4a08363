"""The lesson's pages have the numbers on record, and its cuts of attention are what they are said to be."""

import importlib
import json
import random
import sys
from pathlib import Path

import pytest
import torch

from regard.attention.weight_hooks import Look, hooked
from regard.config import ModelConfig
from regard.config_io import override
from regard.data.corpus import open_corpus
from regard.data.tokenizers import Tokenizers
from regard.decoding.translator import Translator
from regard.models.build import build_model

ROOT = Path(__file__).parents[1]
PAGES = ("index", "1-bottleneck", "2-alignment", "3-scores", "4-self-attention", "5-uniform-attention")
