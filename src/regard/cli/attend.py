"""`regard attend`."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.attention_output import Look, check_files, show_trace
from regard.cli.image_inputs import Features
from regard.cli.options import (
    Beam,
    Color,
    Device,
    Model,
    Search,
    To,
    With,
    check_at_least,
    search_options,
    wants_color,
)
from regard.errors import ConfigError, DataError


def attend(
    model: Model,
    sentence: Annotated[
        str,
        typer.Argument(
            metavar="SENTENCE", help="What to translate, in quotes; for a model of pictures, IMAGE.", show_default=False
        ),
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Also write it as .png, .svg, .pdf, .html (to step through) or .json. Repeatable."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show the attention for this translation instead of the model's.")
    ] = None,
    layer: Annotated[
        int | None, typer.Option(metavar="N", help="Show this layer, from 0 (-1: the last).  [default: the mean]")
    ] = None,
    head: Annotated[
        int | None, typer.Option(metavar="N", help="Show this head, from 0 (-1: the last).  [default: the mean]")
    ] = None,
    heads: Annotated[
        bool, typer.Option("--heads", help="Show every head by itself, of the given layer or of all.")
    ] = False,
    posterior: Annotated[
        bool,
        typer.Option(
            "--posterior",
            help="Show where each token came from, by Bayes' rule, and not where the model looked.",
        ),
    ] = False,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="What the translation must start with.")] = "",
    question: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What to ask about the image, of a model that answers questions.")
    ] = None,
    features: Features = None,
    with_: With = None,
    to: To = None,
    beam: Beam = None,
    set_: Search = None,
    color: Color = None,
    width: Annotated[
        int | None, typer.Option(metavar="N", help="Columns to draw in.  [default: the terminal's]")
    ] = None,
    device: Device = "auto",
) -> None:
    """Show where a model looks while it translates a sentence.

    A row for each token written, a column for each token read; the stronger, the more it was looked at. A language
    model is made to write the sentence itself, and looks back at what stands before. A captioner's attention is laid
    over the image, once for each word, and so is that of the words of a --question and of what a detector finds; a
    classifier's image shows what speaks for its classes.
    """
    _check_text("sentence", sentence)
    check_at_least(20, width=width)
    check_at_least(1, beam=beam)
    if heads and head is not None:
        raise ConfigError("Give either --head or --heads, not both.")
    if target is not None:
        _check_text("target", target)
        asked = [name for name, value in (("prefix", prefix), ("beam", beam), ("set", set_)) if value]
        if asked:
            raise ConfigError(f"--{asked[0]} is for a search, and with --target nothing is searched.")
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    from regard.models.model_folder import open_folder

    if open_folder(model).model.image is not None:
        texts = {"target": target, "posterior": posterior, "prefix": prefix, "with": with_, "to": to}
        for name, given in texts.items():
            if given:
                raise ConfigError(f"--{name} is for models that read texts, and {model} holds one that reads pictures.")
        from regard.cli.attend_image import attend_image

        look = Look(columns, wants_color(color), layer, head, heads)
        attend_image(
            model,
            Path(sentence),
            out or [],
            look,
            question=question,
            features=features,
            beam=beam,
            set_=set_,
            device=device,
        )
        return
    if features is not None:
        raise ConfigError(f"--features is for models that read pictures, and {model} holds one that reads texts.")
    if question is not None:
        raise ConfigError(f"--question is for models that read pictures, and {model} holds one that reads texts.")
    from regard.data.pair import Pair
    from regard.decoding.translator import Translator
    from regard.viz.trace import FORMS

    check_files(out or [], FORMS)
    translator = Translator.load([model, *(with_ or [])], device)
    translator.options = options = search_options(translator.options, set_)
    look = Look(columns, wants_color(color), layer, head, heads)
    if not translator.model.reads:
        unused = {
            "target": target,
            "posterior": posterior,
            "prefix": prefix,
            "with": with_,
            "to": to,
            "beam": beam,
            "set": set_,
        }
        for name, value in unused.items():
            if value:
                raise ConfigError(f"--{name} is for models that read a source, and {model} holds a language model.")
        from regard.decoding.language_model_attention import look_back

        show_trace(sentence, look_back(translator, sentence), out or [], look)
        return
    (sentence,) = translator.tokenizers.tag([sentence], to)
    if target is None:
        best = translator.translate(
            [sentence], beam=beam, prefix=[prefix], candidates=5, options=options, posterior=posterior
        )[0]
        text, trace = best.text, best.attention
    else:
        text, trace = target, translator.align([Pair(sentence, target)], posterior=posterior)[0]
    show_trace(text, trace, out or [], look)


def _check_text(what: str, text: str) -> None:
    if not text.strip():
        raise DataError(f"The {what} is empty: there is nothing to look at.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"The {what} is not valid UTF-8: {text!r}.") from None
