"""The demo of captions, with a training of a moment instead of minutes."""

from pathlib import Path

import numpy as np
import pytest

from regard.data.pictures import open_scenes
from regard.errors import TrainingError
from regard.tasks.captioning import demo
from regard.tasks.captioning.predictor import CaptionPredictor

TINY = (
    *demo.COMMON,
    "data.train=scenes:12",
    "data.valid=scenes:valid:2",
    "model.image.width=16",
    "model.image.stages=3",
    "training.steps=2",
    "training.batch_tokens=100",
    "decoding.max_length=7",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("demo")

    def once(**changed):
        lines: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {"SHORT": TINY, "TEST": "scenes:test:4", "EXAMPLES": (0, 3), **changed}.items():
                patch.setattr(demo, name, value)
            demo.show(place, long=False, width=80, color=False, say=lines.append)
        return "\n".join(lines)

    once.place = place
    return once


def test_it_trains_scores_describes_draws_and_says_what_next_and_a_second_run_uses_what_is_there(run):
    text = run()
    assert demo.DOING in text
    assert "BLEU-4" in text
    assert "right would be: " in text
    assert "Try next" in text
    pictures = sorted(path.name for path in (run.place / "scenes").iterdir())
    assert pictures == ["0.html", "0.png", "3.html", "3.png"]
    weights = (run.place / "captioner" / "model.safetensors").stat().st_mtime_ns
    assert "Using the trained model" in run()
    assert (run.place / "captioner" / "model.safetensors").stat().st_mtime_ns == weights
    config = run.place / "captioner" / "config.toml"
    config.write_text(config.read_text().replace("captioner-small", "xu2015-soft-small"))
    with pytest.raises(TrainingError, match="is not the demo's"):
        run()


def test_the_things_that_a_right_caption_speaks_of_are_outlined_and_those_of_a_wrong_one_are_not(run):
    folder = run.place / "captioner"
    predictor = CaptionPredictor.load(folder)
    scenes = open_scenes("scenes:test", pixels=32)
    (found,) = predictor.caption(scenes.images([0]), beam=1)
    scene = scenes.scene(0)
    assert demo.overlay(found, scene).outlines == ()
    gold = scene.captions[0]
    trace = found.best.attention
    said = type(trace)(
        trace.source, (*gold.words, "</s>"), np.zeros((1, 1, len(gold.words) + 1, 64), np.float32), (), None
    )
    right = type(found)(type(found.best)(gold.text, 0.0, said.target, said), found.grid)
    outlines = demo.overlay(right, scene).outlines
    assert [len(some) for some in outlines] == [*(len(things) for things in gold.things), 0]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("0.png", "0.html"), "Saved as pictures in scenes/*.png, and as pages to step through word by word: *.html\n"),
        (("0.html",), "Saved as pages to step through word by word: scenes/*.html\n"),
    ],
)
def test_only_files_that_were_written_are_told_of(names, told):
    assert told in demo._what_next(Path("m"), [Path("scenes") / name for name in names])


@pytest.mark.parametrize("long", [False, True])
def test_both_configurations_are_the_preset_with_changes_and_fit_the_scenes(long):
    config = demo.configuration(long)
    assert config.preset == "captioner-small"
    assert config.model.image.size == demo.PIXELS
