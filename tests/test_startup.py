"""What must be there before the first sentence is translated, counted in modules: time depends on the machine."""

import subprocess
import sys

import pytest
import torch

from regard.config import ModelConfig
from regard.config_io import override
from regard.data.tokenizers import Tokenizers, Words
from regard.presets import preset, presets
from regard.task import build, build_empty

NEEDED = "import numpy, numpy.random, safetensors.torch, sentencepiece, torch, torch.nn.utils.rnn"
"""What a translator is made of."""
NEVER = ("sympy", "torch._dynamo", "torch._inductor", "matplotlib", "sacrebleu", "rich", "pandas", "jinja2", "triton")
MOST = 40
"""Other modules that it may need: those of Python itself, mostly."""


def loaded(code: str) -> set[str]:
    """Return the modules that are there after some code, but not yet before."""
    full = f"import sys\n{NEEDED}\nbefore = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-c", full], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return set(found.stdout.split())


def test_a_translator_loads_little_beside_what_it_is_made_of(make_folder, tmp_path):
    words = Words(["a", "b", "c"])
    narrow = [f"model.{part}=8" for part in ("embedding", "encoder.width", "decoder.width", "decoder.readout_width")]
    model = make_folder(tmp_path / "model", override(preset("bahdanau2014-small"), narrow), Tokenizers(words, words))
    found = loaded(f"import regard\nregard.load('{model}').translate(['a b c'])")
    assert [name for name in found if name.split(".")[0] in NEVER or name in NEVER] == []
    others = {name for name in found if name.split(".")[0] not in ("regard", "jaxtyping", "wadler_lindig")}
    assert len(others) <= MOST, sorted(others)


def test_settings_are_checked_without_what_only_compilers_need():
    found = loaded(
        "from regard.training.setting_checks import check\nfrom regard.presets import preset\n"
        "from regard.config_io import override\n"
        "check(override(preset('bahdanau2014'), ['data.train=copy:50']))"
    )
    assert not {"sympy", "torch._dynamo"} & found


@pytest.mark.parametrize("name", [name for name in presets if name.endswith(("-small", "-tiny"))])
def test_a_model_to_be_filled_is_like_one_with_weights_but_draws_none(name):
    config = presets[name]().model
    torch.manual_seed(1)
    before = torch.get_rng_state()
    empty = build_empty(config, 31, 31)
    assert torch.equal(torch.get_rng_state(), before), "something was drawn"
    full = build(config, 31, 31)
    shapes = [{key: tensor.shape for key, tensor in model.named_parameters()} for model in (empty, full)]
    assert shapes[0] == shapes[1]
    for (key, ours), (_, theirs) in zip(empty.named_buffers(), full.named_buffers(), strict=True):
        assert torch.equal(ours, theirs), key


def test_refusals_are_the_same():
    from regard.errors import ConfigError

    with pytest.raises(ConfigError, match=r"^model.tie must be one of"):
        build_empty(ModelConfig(tie="some"), 31, 31)
