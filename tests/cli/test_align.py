"""`regard align`: word alignments of given pairs."""

from regard.data.corpus import open_corpus
from regard.decoding.translator import Translator
from regard.evaluation.alignment import Reading, links, merged


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
        "regard: This model has no attention to a source: it is a language model, which reads none.\n",
    )
