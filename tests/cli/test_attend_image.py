"""`regard attend` with models of pictures: words over the image, classes over the image, and what it refuses."""

import json

import pytest

from regard.viz.image_trace import ImageTrace
from regard.viz.token_labels import cells

from .test_image_inputs import captions, classes, clothes, drawn  # noqa: F401 (fixtures)


def test_a_caption_is_laid_over_its_image(regard, captions, drawn, tmp_path):  # noqa: F811
    files = [tmp_path / f"look.{kind}" for kind in ("svg", "html", "json")]
    ran = regard(
        "attend", captions, drawn / "0.png", "--width", "60", *(part for file in files for part in ("--out", file))
    )
    assert ran.code == 0, ran.err
    assert ran.err == "".join(f"Wrote {file}\n" for file in files)
    assert ran.lines[0] == regard("caption", captions, drawn / "0.png").lines[0]
    trace = ImageTrace.load(files[2])
    assert trace.image.shape == (48, 48, 3)  # as the file has it; the model reads another size
    assert "\n".join(ran.lines[1:]) == trace.render(60)
    assert max(map(cells, ran.lines[1:])) <= 60
    assert json.loads(files[2].read_text())["trace"]["candidates"]
    assert "<canvas" in files[1].read_text()


def test_classes_are_explained_over_the_image(regard, classes, drawn, tmp_path):  # noqa: F811
    ran = regard("attend", classes, drawn / "1.png", "--out", tmp_path / "look.svg", "--color")
    assert ran.code == 0, ran.err
    assert "(Grad-CAM)" in ran.lines[0]
    assert "▀" in ran.out
    assert "Grad-CAM" in (tmp_path / "look.svg").read_text()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--target", "a ring"), "Leave out --target: {} holds a captioner, which describes pictures."),
        (("--head", "9"), "There is no head 9: this model has 1, counted from 0."),
        (
            ("--out", "look.gif"),
            "Cannot save look.gif: files of kind '.gif' cannot be written. Use one of .png, .svg, .pdf, .html, .json.",
        ),
    ],
)
def test_what_a_captioner_cannot_do_is_refused(regard, captions, drawn, more, message):  # noqa: F811
    ran = regard("attend", captions, drawn / "0.png", *more)
    assert (ran.code, ran.out) == (2, "")
    assert message.format(captions) in ran.err


def test_what_is_no_image_is_refused(regard, captions, classes, drawn, tmp_path):  # noqa: F811
    assert f"{tmp_path} is a folder: give one image of it." in regard("attend", captions, tmp_path).err
    assert "Did you mean '0.png'?" in regard("attend", captions, drawn / "0.pgn").err
    assert "--layer, --head and --heads are for captioners" in regard("attend", classes, drawn / "0.png", "--heads").err
