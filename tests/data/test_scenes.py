"""Laws of the embedded scenes: what is said of them is so, words alone tell nothing, and what is held out stays out.

A reader of our own, that knows English of this kind and the list of things, checks every caption and every answer.
"""

import math
import re
import zlib
from collections import Counter, defaultdict

import numpy as np
import pytest

from regard.data.scenes import ANSWERS, QUESTION_KINDS, generate, on_grid, scene
from regard.data.scenes.objects import COLOURS, CONTAINERS, SHAPES, SIZES, TEXTURES, Description, Kind, Thing
from regard.data.scenes.painting import _RGB, paint
from regard.data.scenes.portable_random import PortableRandom
from regard.data.scenes.reserved_combinations import (
    FREE,
    KINDS,
    RESERVED,
    RESERVED_PAIRS,
    is_reserved,
    speaks_of_reserved,
)
from regard.errors import DataError
from regard.viz.png import png

NUMBERS = {"none": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
NOUNS = {noun: shape for shape in SHAPES for noun in (shape, {"cross": "crosses"}.get(shape, shape + "s"))}
ANYTHING = ("thing", "things", "shape", "shapes")
RELATION = "inside|above|below|to the left of|to the right of"


@pytest.fixture(scope="module")
def train():
    return list(generate("train", 2_500))


@pytest.fixture(scope="module")
def heldout():
    return [*generate("valid", 500), *generate("test", 500)]


@pytest.fixture(scope="module")
def every(train, heldout):
    return [*train[:1_000], *heldout]


# ------------------------------------------------------------------------------ a reader of our own, with our eyes


def read(phrase, things):
    """Return the things that a noun phrase without its article fits."""
    *adjectives, noun = phrase.split()
    assert noun in ANYTHING or noun in NOUNS, phrase
    found = set()
    for i, thing in enumerate(things):
        told = {thing.size, thing.kind.colour, thing.kind.texture}
        if set(adjectives) <= told and (noun in ANYTHING or NOUNS[noun] == thing.kind.shape):
            found.add(i)
    return found


def the(phrase, things):
    """Return the one thing that is meant."""
    (only,) = read(phrase, things)
    return only


def stands(things, one, relation, other):
    """Tell whether a thing stands so to another; None where one might not agree."""
    if relation == "inside":
        return things[one].within == other
    if things[one].within == other or things[other].within == one:
        return None
    x, y = things[one].x - things[other].x, things[other].y - things[one].y
    direction = {"to the right of": 0, "above": 90, "to the left of": 180, "below": 270}[relation]
    off = abs((math.degrees(math.atan2(y, x)) - direction + 180) % 360 - 180)
    return True if off < 28.811 else False if off > 75.963 else None


def answer(text, things):
    """Answer a question from the list of things; return the things that decide it, too."""
    if m := re.fullmatch(rf"is there an? (.+?) ({RELATION}) the (.+)\?", text):
        other = the(m[3], things)
        fitting = read(m[1], things) - {other}
        told = {i: stands(things, i, m[2], other) for i in fitting}
        assert fitting
        assert True in told.values() or None not in told.values()
        yes = True in told.values()
        return yes, {i for i in told if told[i] is yes} | {other}
    if m := re.fullmatch(r"(?:is there an?|are there any) (.+)\?", text):
        return bool(read(m[1], things)), read(m[1], things)
    if m := re.fullmatch(r"how many (.+) are there\?", text):
        return len(read(m[1], things)), read(m[1], things)
    if m := re.fullmatch(rf"what (colour|shape) is the thing ({RELATION}) the (.+)\?", text):
        other = the(m[3], things)
        told = {i: stands(things, i, m[2], other) for i in range(len(things)) if i != other}
        assert None not in told.values()
        (only,) = [i for i, so in told.items() if so]
        return getattr(things[only].kind, m[1]), {only, other}
    if m := re.fullmatch(r"what (colour|shape) is the (.+)\?", text):
        return getattr(things[the(m[2], things)].kind, m[1]), {the(m[2], things)}
    if m := re.fullmatch(r"are there (more|fewer|as many) (.+) (?:than|as) (.+)\?", text):
        one, other = read(m[2], things), read(m[3], things)
        truth = {"more": len(one) > len(other), "fewer": len(one) < len(other), "as many": len(one) == len(other)}
        return truth[m[1]], one | other
    if m := re.fullmatch(r"is the (.+) (larger|smaller) than the (.+)\?", text):
        one, other = the(m[1], things), the(m[3], things)
        assert things[one].size != things[other].size
        return (things[one].radius > things[other].radius) == (m[2] == "larger"), {one, other}
    if m := re.fullmatch(r"is the (.+) the same (colour|shape|size) as the (.+)\?", text):
        one, other = the(m[1], things), the(m[3], things)
        return getattr(things[one], m[2]) == getattr(things[other], m[2]), {one, other}
    m = re.fullmatch(rf"is the (.+) ({RELATION}) the (.+)\?", text)
    assert m, text
    one, other = the(m[1], things), the(m[3], things)
    truth = stands(things, one, m[2], other)
    assert truth is not None
    return truth, {one, other}


def test_every_answer_is_right_and_decided_by_its_things(every):
    for drawn in every:
        for question in drawn.questions:
            found, deciding = answer(question.text, drawn.things)
            if isinstance(found, bool):
                found = "yes" if found else "no"
            elif isinstance(found, int):
                found = next(word for word, number in NUMBERS.items() if number == found)
            assert (found, tuple(sorted(deciding))) == (question.answer, question.things), (question, drawn.things)


def is_true(text, things):
    """Tell whether a caption is true of things, and says all that it should."""
    if m := re.fullmatch(r"from left to right (.+)", text):
        named = [read(re.sub("^an? ", "", phrase), things) for phrase in m[1].split(" then ")]
        order = sorted(range(len(things)), key=lambda i: things[i].x)
        return len(named) == len(order) and all(i in fitting for i, fitting in zip(order, named, strict=True))
    if m := re.fullmatch(rf"there is an? (.+) ({RELATION}) an? (.+)", text):
        return stands(things, the(m[1], things), m[2], the(m[3], things))
    if m := re.fullmatch(r"there (?:is|are) (.+)", text):
        if len(things) == 1:
            return the(re.sub("^an? ", "", m[1]), things) == 0
        counted = Counter()
        for group in m[1].split(" and "):
            number, noun = group.split()
            counted[NOUNS[noun]] = NUMBERS.get(number, 1)
        return counted == Counter(thing.kind.shape for thing in things)
    if m := re.fullmatch(r"(?:both|all (\w+)) shapes are (\w+)", text):
        return (NUMBERS[m[1]] if m[1] else 2) == len(things) == sum(thing.kind.colour == m[2] for thing in things)
    if m := re.fullmatch(r"(\w+) shapes? (?:is|are) (.+)", text):
        bare = re.sub(r" (shapes?|is|are)\b", "", text)
        groups = [group.split() for group in bare.split(" and ")]
        return {colour: NUMBERS[n] for n, colour in groups} == Counter(thing.kind.colour for thing in things)
    if m := re.fullmatch(r"the (\w+) and the (\w+) are the same colour", text):
        return things[the(m[1], things)].kind.colour == things[the(m[2], things)].kind.colour
    if m := re.fullmatch(r"the only shape is an? (.+)", text):
        return len(things) == 1 and read(m[1], things) == {0}
    if m := re.fullmatch(r"the (.+?) is (.+)", text):
        large = the(m[1], things)
        for part in m[2].split(" and "):
            relation, other = re.fullmatch(rf"(around|{RELATION}) the (.+)", part).groups()
            i = the(other, things)
            if not (stands(things, i, "inside", large) if relation == "around" else stands(things, large, relation, i)):
                return False
        return m[2].count(" and ") == len(things) - 2
    m = re.fullmatch(r"an? (.+?)(?: with (.+))?", text)
    large = the(m[1], things)
    around = m[2].split(" and ") if m[2] else []
    for part in around:
        other, place = re.fullmatch(r"an? (.+?) ((?:inside|above|below) it|to its (?:left|right))", part).groups()
        relation = {"to its left": "to the left of", "to its right": "to the right of"}.get(place, place[:-3])
        if not stands(things, the(other, things), relation, large):
            return False
    return len(around) == len(things) - 1


def test_every_caption_is_true_and_complete(every):
    for drawn in every:
        for caption in drawn.captions:
            assert is_true(caption.text, drawn.things), (caption.text, drawn.things)


@pytest.mark.parametrize(
    "text",
    ["from left to right a small red star then a large blue ring", "there are two stars", "both shapes are red",
     "a large blue ring with a small red star to its left", "the blue ring is to the right of the red star",
     "two shapes are red", "there is a star", "the only shape is a large blue ring"],
)  # fmt: skip
def test_the_reader_notices_what_is_wrong(text):
    things = [
        Thing(Kind("blue", "plain", "ring"), "large", 0.2, 0.5, 0.1),
        Thing(Kind("red", "plain", "star"), "small", 0.7, 0.5, 0.1),
    ]
    assert is_true("a large blue ring with a small red star to its right", things)
    assert not is_true(text, things)


def test_words_speak_of_the_things_that_they_name(every):
    for drawn in every:
        for caption in drawn.captions:
            assert len(caption.words) == len(caption.things)
            for word, spoken in zip(caption.words, caption.things, strict=True):
                named = [drawn.things[i] for i in spoken]
                if word in SIZES + COLOURS + TEXTURES or word in NOUNS:
                    assert named, caption
                    for thing in named:
                        told = (thing.size, thing.kind.colour, thing.kind.texture, thing.kind.shape)
                        assert NOUNS.get(word, word) in told, caption
                    assert (len(named) > 1) == (word not in SHAPES) or word not in NOUNS, caption
                elif word in NUMBERS:
                    assert len(named) in (NUMBERS[word], len(drawn.things)), caption
                elif word in ("it", "its"):
                    assert spoken == (0,), caption
                elif word in ("above", "below", "inside", "around"):
                    assert len(spoken) == 2, caption
                elif word in ("a", "an", "the", "there", "is", "are", "and", "with", "of", "from", "to", "then"):
                    assert spoken == (), caption


def test_all_is_proper_english(every):
    said = [caption.text for drawn in every for caption in drawn.captions]
    asked = [question.text for drawn in every for question in drawn.questions]
    wrong = re.compile(
        r"\ba [aeiou]|\ban [^aeiou]|\b(\w+) \1\b|\bone (shapes|things)|\b(two|three|four|five) (shape|thing|"
        + "|".join(SHAPES)
        + r")\b|\bthere are an?\b|\bthere is (two|three|four|five)|\bplain .* with\b|crosss|  |[^a-z ?]"
    )
    assert [text for text in said + asked if wrong.search(text)] == []
    assert not any("plain" in text for text in said)
    assert wrong.search("there is a orange star")
    assert wrong.search("two star")
    assert max(len(text.split()) for text in said) <= 36
    assert {len(drawn.captions) for drawn in every} <= {3, 4, 5}


# ------------------------------------------------------------------------------------- answers, and guessing them


def test_guessing_without_looking_fails(train):
    """By the commonest answer of a kind; and by that of the same words, or of words of the same kind."""
    kinds = [(COLOURS, "C"), (TEXTURES, "T"), (NOUNS, "N")]

    def like(words):
        return tuple(next((mark for names, mark in kinds if word in names), word) for word in words)

    seen = {name: defaultdict(Counter) for name in ("words", "like", "kind")}
    for drawn in train[:2_000]:
        for question in drawn.questions:
            seen["words"][question.words][question.answer] += 1
            seen["like"][like(question.words)][question.answer] += 1
            seen["kind"][question.kind][question.answer] += 1
    right = {name: defaultdict(list) for name in ("prior", "words")}
    for question in (question for drawn in train[2_000:] for question in drawn.questions):
        counts = seen["words"][question.words], seen["like"][like(question.words)], seen["kind"][question.kind]
        told = next(count for count, least in zip(counts, (5, 20, 0), strict=True) if count.total() >= least)
        right["words"][question.kind].append(told.most_common(1)[0][0] == question.answer)
        right["prior"][question.kind].append(counts[2].most_common(1)[0][0] == question.answer)
    most = {"existence": 0.58, "count": 0.48, "colour": 0.22, "shape": 0.22, "comparison": 0.6, "spatial": 0.6}
    for name, found in right.items():
        for kind, hits in found.items():
            assert sum(hits) / len(hits) < most[kind], (name, kind)


def test_answers_are_spread(train, heldout):
    for scenes in (train, [drawn for drawn in heldout if drawn.held_out]):
        answers = {kind: Counter() for kind in QUESTION_KINDS}
        for drawn in scenes:
            for question in drawn.questions:
                answers[question.kind][question.answer] += 1
        for kind in ("existence", "comparison", "spatial"):
            assert set(answers[kind]) == {"yes", "no"}
            assert 0.45 < answers[kind]["yes"] / answers[kind].total() < 0.55
        assert set(answers["count"]) == set(NUMBERS)
        assert max(answers["count"].values()) < 0.35 * answers["count"].total()
        for kind, names in (("colour", COLOURS), ("shape", SHAPES)):
            assert set(answers[kind]) == set(names)
            assert max(answers[kind].values()) < 0.2 * answers[kind].total()
        assert all(counts.total() > len(scenes) for counts in answers.values())


def test_no_question_names_what_it_asks_for(every):
    for question in (question for drawn in every for question in drawn.questions):
        assert question.answer in ANSWERS
        assert question.answer not in question.words or (question.kind, question.answer) in {
            (kind, answer)
            for kind, names in (("colour", COLOURS), ("shape", SHAPES))
            for answer in names
            if re.search(rf" the thing ({RELATION}) ", question.text)  # it may name another thing of that colour
        }


def test_asks_once(every):
    for drawn in every:
        texts = [question.text for question in drawn.questions]
        assert len(texts) == len(set(texts)) >= 3
        assert all(sum(question.kind == kind for question in drawn.questions) <= 2 for kind in QUESTION_KINDS)


# ------------------------------------------------------------------------------------------------------- held out

RESERVED_TEXT = re.compile(
    "|".join(rf"\b{colour} ((plain|striped|dotted|checked) )?{shape}(s|es)?\b" for colour, shape in RESERVED_PAIRS)
    + "|"
    + "|".join(rf"\b{kind.colour} {kind.texture} {kind.shape}(s|es)?\b" for kind in RESERVED)
)


def test_training_never_shows_or_names_what_is_held_out(train, heldout):
    """Read off the text, and off the things."""
    familiar = [drawn for drawn in heldout if not drawn.held_out]
    for drawn in [*train, *familiar]:
        assert not any(is_reserved(thing.kind) for thing in drawn.things)
        texts = [caption.text for caption in drawn.captions] + [question.text for question in drawn.questions]
        assert [text for text in texts if RESERVED_TEXT.search(text)] == []
        assert not any(question.held_out for question in drawn.questions)


def test_every_other_held_out_scene_has_something_new(heldout):
    assert [drawn.held_out for drawn in heldout] == [False, True] * 500
    shown = {thing.kind for drawn in heldout for thing in drawn.things}
    assert shown >= set(RESERVED)
    for drawn in heldout[1::2]:
        new = {i for i, thing in enumerate(drawn.things) if is_reserved(thing.kind)}
        assert new
        for question in drawn.questions:
            expected = bool(new & set(question.things)) or bool(RESERVED_TEXT.search(question.text))
            assert question.held_out == expected, question
    asked = [question for drawn in heldout[1::2] for question in drawn.questions]
    assert sum(question.held_out for question in asked) > len(asked) / 2


def test_what_is_held_out_is_little_and_fair():
    assert set(RESERVED) | set(FREE) == set(KINDS)
    assert len(KINDS) == len(COLOURS) * len(TEXTURES) * len(SHAPES)
    assert Counter(colour for colour, _ in RESERVED_PAIRS) == Counter(COLOURS)
    assert Counter(shape for _, shape in RESERVED_PAIRS) == Counter(SHAPES)
    triples = [kind for kind in RESERVED if (kind.colour, kind.shape) not in RESERVED_PAIRS]
    assert 0.06 < len(triples) / len(KINDS) < 0.13
    assert not any(kind.texture == "plain" for kind in triples)
    assert speaks_of_reserved(Description(colour="red", shape="star"))
    assert speaks_of_reserved(Description("large", "red", "dotted", "star"))
    assert not speaks_of_reserved(Description(colour="red"))
    assert not speaks_of_reserved(Description(colour="red", shape="circle"))


def test_every_held_out_word_occurs_in_training(train, heldout):
    def words(scenes):
        said = {word for drawn in scenes for caption in drawn.captions for word in caption.words}
        asked = {word for drawn in scenes for question in drawn.questions for word in question.words}
        return said, asked, {question.answer for drawn in scenes for question in drawn.questions}

    for new, known in zip(words(heldout), words(train), strict=True):
        assert new <= known


# ------------------------------------------------------------------------------------------------------- pictures


@pytest.mark.parametrize("pixels", [32, 61, 128])
def test_masks_and_boxes_are_where_the_things_are(pixels):
    for drawn in generate("test", 60, pixels=pixels):
        image, masks, boxes = drawn.painting
        assert image.shape == (pixels, pixels, 3)
        assert image.dtype == np.uint8
        assert masks.sum(axis=0).max() <= 1
        for thing, mask, (left, top, right, bottom) in zip(drawn.things, masks, boxes, strict=True):
            rows, columns = np.nonzero(mask)
            assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (left, top, right, bottom)
            reach = np.hypot((columns + 0.5) / pixels - thing.x, (rows + 0.5) / pixels - thing.y).max()
            assert reach < thing.radius + 0.5 / pixels
            assert mask.sum() >= 12
            if thing.within is not None:
                outer = boxes[thing.within]
                assert outer[0] < left
                assert outer[1] < top
                assert outer[2] > right
                assert outer[3] > bottom


@pytest.mark.parametrize("side", [1, 7, 8, 64])
def test_a_grid_has_as_much_of_each_thing_as_the_picture(side):
    masks = scene("test", 3).painting.masks
    covered = on_grid(masks, side)
    assert covered.shape == (len(masks), side, side)
    assert covered.min() >= 0
    assert covered.max() <= 1 + 1e-6
    np.testing.assert_allclose(covered.mean(axis=(1, 2)), masks.mean(axis=(1, 2)), rtol=1e-5)
    if side == 64:
        assert np.array_equal(covered > 0.5, masks)
    if side == 8:
        cells = masks.reshape(len(masks), 8, 8, 8, 8).mean(axis=(2, 4))
        np.testing.assert_allclose(covered, cells, atol=1e-6)


def test_a_thing_has_the_colour_and_the_texture_that_are_named(heldout):
    for drawn in heldout[:200]:
        image, masks, _ = drawn.painting
        for thing, mask in zip(drawn.things, masks, strict=True):
            around = np.stack([np.roll(mask, step, axis) for step in (-1, 1) for axis in (0, 1)])
            seen = image[mask & around.all(axis=0)].astype(int)  # without the edge, where the ground shines through
            light = seen[seen.sum(axis=1) >= np.quantile(seen.sum(axis=1), 0.75)]  # the first tone of a texture
            distances = {name: np.abs(np.median(light, axis=0) - rgb).sum() for name, rgb in _RGB.items()}
            assert min(distances, key=distances.get) == thing.kind.colour
            dark = (seen.sum(axis=1) < 0.7 * np.median(light.sum(axis=1))).mean()
            assert (dark < 0.05) if thing.kind.texture == "plain" else (0.1 < dark < 0.75), thing


def test_shapes_are_told_apart_by_their_masks():
    """Upright, of one size: each shape is most like itself at half the size."""

    def mask(shape, pixels):
        thing = Thing(Kind("red", "plain", shape), "large", 0.5, 0.5, 0.45)
        return paint([thing], pixels, PortableRandom(1)).masks[0]

    small = {shape: mask(shape, 24) for shape in SHAPES}
    for shape in SHAPES:
        large = mask(shape, 48).reshape(24, 2, 24, 2).mean(axis=(1, 3))
        differing = {name: np.abs(large - other).sum() for name, other in small.items()}
        assert min(differing, key=differing.get) == shape
        assert sorted(differing.values())[1] > 2 * differing[shape]


def test_nothing_overlaps_but_what_is_inside(every):
    for drawn in every:
        for i, one in enumerate(drawn.things):
            assert one.radius <= one.x <= 1 - one.radius
            assert one.radius <= one.y <= 1 - one.radius
            assert (one.size == "large") == (one.radius > 0.165)
            for j, other in enumerate(drawn.things[:i]):
                distance = math.hypot(one.x - other.x, one.y - other.y)
                if one.within == j:
                    assert other.kind.shape in CONTAINERS
                    assert other.kind.colour != one.kind.colour
                    assert distance + one.radius < other.radius
                else:
                    assert distance > one.radius + other.radius


def test_a_crowd_has_an_order_that_can_be_seen(every):
    crowds = [drawn for drawn in every if drawn.layout == "crowd"]
    assert {len(drawn.things) for drawn in crowds} == {2, 3, 4, 5}
    for drawn in crowds:
        places = [thing.x for thing in drawn.things]
        assert min(np.diff(places)) >= 0.0799


# -------------------------------------------------------------------------------------------- a function of its key


def test_a_scene_depends_on_its_place_alone(train):
    again = scene("train", 17)
    assert again.things == train[17].things
    assert again.questions == train[17].questions
    assert np.array_equal(again.painting.image, train[17].painting.image)
    assert [drawn.things for drawn in generate("train", 3, start=16)] == [drawn.things for drawn in train[16:19]]
    others = scene("train", 17, seed=2), scene("valid", 16), scene("train", 18), scene("train", 17, seed=-1)
    assert all(other.things != again.things for other in others)


def test_a_scene_of_another_size_is_the_same_scene():
    small, large = scene("test", 5, pixels=32), scene("test", 5, pixels=128)
    assert small.things == large.things
    assert small.captions == large.captions
    assert small.questions == large.questions
    shrunk = large.painting.image.reshape(32, 4, 32, 4, 3).mean(axis=(1, 3))
    assert np.abs(shrunk - small.painting.image).mean() < 4


def test_what_is_drawn_stays_the_same():
    """These are bits of PCG64, which NumPy promises to keep; a change here changes what every seed means."""
    chance = PortableRandom(1, 2, 3)
    assert [int(chance.random() * 2**20) for _ in range(3)] == DRAWN
    assert zlib.crc32(repr([drawn.things for drawn in generate("test", 20)]).encode()) == THINGS
    assert zlib.crc32(b"".join(drawn.painting.image.tobytes() for drawn in generate("test", 20))) == PIXELS


DRAWN, THINGS, PIXELS = [895684, 1032666, 156075], 2102662258, 2292341659


def test_a_png_has_what_every_program_needs():
    image = scene("train", 3).painting.image
    content = png(image)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")


def test_says_what_is_allowed():
    for call, message in [
        (lambda: generate("trian", 1), "No split named 'trian' in scenes. Did you mean 'train'? "
                                       "It has train, valid, test."),
        (lambda: generate("train", -1), "scenes: size is -1, but must be 0 or more."),
        (lambda: scene("train", -1), "scenes: index is -1, but must be 0 or more."),
        (lambda: scene("train", 1, pixels=16), "scenes cannot be painted with 16 pixels a side: give 32 to 128."),
    ]:  # fmt: skip
        with pytest.raises(DataError) as refused:
            call()
        assert str(refused.value) == message
