"""`regard align`: word alignments of given pairs."""

from dataclasses import replace

from regard.config_io import to_toml
from regard.data.corpus import open_corpus
from regard.decoding.translator import Translator
from regard.evaluation.alignment_error_rate import Reading, links, merged
from regard.models.model_folder import open_folder
from regard.presets.vision import visions


def test_the_lines_are_the_links_of_the_model(regard, trained, corpus):
    ran = regard("align", trained, "--source", corpus / "pairs.en", "--target", corpus / "pairs.fr")
    assert (ran.code, ran.err) == (0, "")
    pairs = list(open_corpus([str(corpus / "pairs.tsv")]))
    expected = [links(trace) for trace in Translator.load(trained).align(pairs)]
    assert ran.lines == [" ".join(f"{i}-{j}" for i, j in sorted(found)) for found in expected]
    assert len(ran.lines) == 60


def test_two_directions_are_merged(regard, trained, corpus):
    given = ("--data", corpus / "pairs.tsv", "--reverse-model", trained, "--symmetrise", "union", "--shift")
    ran = regard("align", trained, *given)
    assert ran.code == 0
    pairs = list(open_corpus([str(corpus / "pairs.tsv")]))
    translator = Translator.load(trained)
    reading = Reading(shift=True)
    there = [links(trace, reading) for trace in translator.align(pairs)]
    back = [links(trace, reading) for trace in translator.align([pair.reversed() for pair in pairs])]
    expected = [merged(*both, "union") for both in zip(there, back, strict=True)]
    assert ran.lines == [" ".join(f"{i}-{j}" for i, j in sorted(found)) for found in expected]


def test_where_words_came_from_is_told_on_request(regard, another, corpus):
    data = ("--source", corpus / "pairs.en", "--target", corpus / "pairs.fr")
    ran = regard("align", another, *data, "--posterior", "--head", "1")
    assert (ran.code, ran.err) == (0, "")
    pairs, translator = list(open_corpus([str(corpus / "pairs.tsv")])), Translator.load(another)
    looked, told = (
        [links(trace, Reading(head=1)) for trace in translator.align(pairs, posterior=posterior)]
        for posterior in (False, True)
    )
    assert ran.lines == [" ".join(f"{i}-{j}" for i, j in sorted(found)) for found in told]
    assert told != looked


def test_what_has_no_looks_to_weigh_is_told(refused, make_folder, trained, language_model, corpus, tmp_path):
    data = ("--data", corpus / "pairs.tsv")
    config = open_folder(trained)
    blind = replace(config, model=replace(config.model, attention=None))
    make_folder(tmp_path / "blind", blind, Translator.load(trained).tokenizers)
    assert refused("align", tmp_path / "blind", *data, "--posterior") == (
        "There are no links: this model has no attention."
    )
    assert refused("align", language_model, *data, "--posterior") == (
        "This model has no attention to a source: it is a language model, which has none."
    )
    for command in ("align", "evaluate"):
        assert refused(command, trained, *data, "--shift", "--posterior") == (
            "--shift aligns a word by a look that has read it, --posterior weighs the look that has not: give one."
        )
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (pictures / "config.toml").write_text(to_toml(visions["xu2015-soft-small"]()), encoding="utf-8")
    assert refused("evaluate", pictures, "--data", "scenes:4", "--posterior") == (
        f"Leave out --posterior: {pictures} holds a captioner, which describes pictures."
    )


def test_what_it_writes_can_be_trained_on(regard, trained, corpus, here):
    files = ("--source", corpus / "pairs.en", "--target", corpus / "pairs.fr")
    (here / "links").write_text(regard("align", trained, *files).out)
    ran = regard("data", corpus / "pairs.en", corpus / "pairs.fr", "links", "--check")
    assert (ran.code, ran.err) == (0, "")


def test_bad_use_is_told(regard, trained, language_model, corpus):
    assert regard("align", trained).err == "regard: There is nothing to align: give --data, or --source and --target.\n"
    assert regard("align", trained, "--data", corpus / "pairs.tsv", "--symmetrise", "union").err == (
        "regard: --symmetrise merges the alignments of two models: give --reverse-model, too.\n"
    )
    ran = regard("align", language_model, "--data", corpus / "pairs.tsv")
    assert (ran.code, ran.err) == (
        2,
        "regard: This model has no attention to a source: it is a language model, which has none.\n",
    )
