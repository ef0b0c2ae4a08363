"""`regard data scenes`: what is printed is what the scenes have, and an exported folder can be read like any other."""

import json

import numpy as np
import pytest

from regard.data.pictures import open_pictures
from regard.data.scenes import scene


def test_prints_captions_and_questions(regard):
    ran = regard("data", "scenes", "--split", "test", "--size", "3")
    assert (ran.code, ran.err) == (0, "")
    expected = []
    for i in range(3):
        one = scene("test", i)
        expected += [f"{i:06}.png#{j}\t{caption.text}" for j, caption in enumerate(one.captions)]
        expected += [f"{i:06}.png\t{q.kind}\t{q.text}\t{q.answer}" for q in one.questions]
    assert ran.lines == expected
    assert regard("data", "scenes:test:3").lines == expected
    assert regard("data", "scenes:3:test", "--size", "9").lines == expected
    assert regard("data", "scenes:test:5", "--size", "3").lines == expected
    assert regard("data", "scenes:test:3", "--seed", "2").lines != expected


def test_prints_all_that_is_known_as_json(regard):
    first, second = map(json.loads, regard("data", "scenes:valid", "--size", "2", "--json", "--pixels", "32").lines)
    one = scene("valid", 1, pixels=32)
    assert first["held_out"] is False
    assert second["held_out"] is True
    assert [thing["box"] for thing in second["things"]] == one.painting.boxes.tolist()
    assert [thing["shape"] for thing in second["things"]] == [thing.kind.shape for thing in one.things]
    assert [caption["things"] for caption in second["captions"]] == [
        [list(things) for things in caption.things] for caption in one.captions
    ]
    assert [question["answer"] for question in second["questions"]] == [q.answer for q in one.questions]


def test_an_exported_folder_can_be_read_as_any_other(regard, here):
    ran = regard("data", "scenes:valid:4", "--out", "seen", "--pixels", "40")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "seen: 4 pictures, captions.tsv, questions.tsv, scenes.jsonl\n"
    made, read = open_pictures(["scenes:valid:4"], pixels=40), open_pictures(["seen"], pixels=40)
    assert len(read) == 4
    for i in range(4):
        assert np.array_equal(read.image(i), made.image(i))
        assert read.captions(i) == made.captions(i)
    again = regard("data", "scenes:valid:4", "--out", "seen")
    assert (again.code, again.err) == (2, "regard: seen already exists: give the name of a new folder.\n")


def test_check_sums_up(regard):
    lines = regard("data", "scenes:valid:60", "--check").lines
    assert lines[0] == "scenes:valid:60: 60 scenes, 30 with a held-out combination"
    kinds = [line.split(":")[0].strip() for line in lines[1:]]
    assert lines[1] == "  images: 64 × 64 pixels, coloured"
    assert kinds == ["images", "things", "captions", "existence", "count", "colour", "shape", "comparison", "spatial"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("scenes", "--reverse"), "scenes has pictures, and --reverse is for pairs: leave it out."),
        (("scenes", "--pixels", "20"), "scenes cannot be painted with 20 pixels a side: give 32 to 128."),
        (("scenes", "--split", "tset"), "No split named 'tset' in scenes. Did you mean 'test'? "
                                        "It has train, valid, test."),
        (("scenes", "--size", "0"), "--size is 0; it must be at least 1."),
        (("scenes", "--pixels", "0"), "--pixels is 0; it must be at least 1."),
        (("copy", "--out", "x"), "--out and --pixels are for scenes, which are painted: leave them out."),
        (("copy", "--pixels", "64"), "--out and --pixels are for scenes, which are painted: leave them out."),
    ],
)  # fmt: skip
def test_refusals(refused, here, given, message):
    assert refused("data", *given) == message
