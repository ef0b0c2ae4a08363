"""What `/api/translate/edit` and its neighbours take: a text, and edits as `Edit.to_json` writes them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from regard.decoding.edits import Edit, edits_from_json
from regard.serve.request_limits import WHOLE
from regard.tasks.translation.http_models import SOME_TEXT, Beam

MOST_EDITS = 64
MOST_PLACES = 4_096
"""Of steps and positions, and so of weights and tokens in one edit."""

Place = Annotated[int, Field(ge=0, lt=MOST_PLACES), WHOLE]
Weight = Annotated[float, Field(ge=0, le=1)]
Position = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,3})$")]
_POSITIONS: dict[str, Any] = {"propertyNames": {"pattern": r"^(0|[1-9][0-9]{0,3})$"}}
Token = Annotated[str, StringConstraints(max_length=200)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _OfWeights(_Record):
    step: Place | None = Field(None, description="The step whose weights are changed, from 0; null for all.")
    layer: Place | None = Field(None, description="From 0; null for all.")
    head: Place | None = Field(None, description="From 0; null for all.")
    attention: Literal["source", "own"] = Field(
        "source", description="To the source, or a Transformer decoder's own to what it has written."
    )


class WeightsRecord(_OfWeights):
    """Set the weights of some positions; the others share the rest in proportion."""

    kind: Literal["weights"]
    weights: dict[Position, Weight] = Field(
        min_length=1, max_length=MOST_PLACES, examples=[{"2": 0.8}], json_schema_extra=_POSITIONS
    )


class RowRecord(_OfWeights):
    """Use a whole row of weights."""

    kind: Literal["row"]
    row: list[Weight] = Field(min_length=1, max_length=MOST_PLACES)


class AblateRecord(_OfWeights):
    """Silence heads."""

    kind: Literal["ablate"]
    to: Literal["zero", "uniform"] = "zero"


class DropRecord(_Record):
    """Hide a source position from the decoder."""

    kind: Literal["drop"]
    position: Place


class PrefixRecord(_Record):
    """Let the translation start with tokens; `keep` does so until an earlier step is edited."""

    kind: Literal["prefix", "keep"]
    tokens: list[Token] = Field(max_length=MOST_PLACES)


Record = Annotated[
    WeightsRecord | RowRecord | AblateRecord | DropRecord | PrefixRecord,
    Field(discriminator="kind"),
]


class WantedTree(_Record):
    """The text to translate; only `text` is required."""

    text: str = Field(
        min_length=1, pattern=SOME_TEXT, examples=["the red dress"], json_schema_extra={"x-limit": "characters"}
    )
    model: str | None = Field(
        None,
        description="A name from /api/models; by default the first that translates.",
        json_schema_extra={"x-limit": "translators"},
    )
    beam: Beam = Field(None, description="Beam size; the model's setting by default.")
    to: str | None = Field(
        None,
        description="Tag of the language to write, for a model trained with several tags.",
        json_schema_extra={"x-limit": "tags"},
    )


class WantedEdit(WantedTree):
    """The text to translate, and edits of its translation; only `text` is required."""

    edits: list[Record] = Field(
        [], max_length=MOST_EDITS, description="In order. They must fit the model and the text: otherwise status 400."
    )

    def read_edits(self) -> tuple[Edit, ...]:
        """Return the edits as values; raise a ConfigError for some that mean nothing."""
        return edits_from_json([one.model_dump() for one in self.edits])


class WantedStep(WantedEdit):
    """The text, edits, and a step of the translation; only `text` is required."""

    step: Place = Field(0, description="From 0; status 400 if the translation ends before.")


class Change(BaseModel):
    """A stretch of tokens before and after the edits."""

    kind: Literal["same", "replaced", "removed", "added"]
    old: list[str]
    new: list[str]


class OldToken(BaseModel):
    """A token before the edits; log-probabilities are null where a probability is zero."""

    token: str
    log_prob: float | None
    edited: float | None = Field(description="Its log-probability with the edits.")
    change: float | None


class NewToken(BaseModel):
    """A token with the edits."""

    token: str
    log_prob: float | None


class Comparison(BaseModel):
    """What the edits changed, compared with no edits."""

    changes: list[Change]
    old: list[OldToken]
    new: list[NewToken]


class Labels(BaseModel):
    """Tokens as people read them."""

    source: list[str]
    target: list[str]


class Edited(BaseModel):
    """A translation with edits."""

    model: str
    text: str
    before: str = Field(description="The translation without edits.")
    score: float
    tokens: list[str]
    labels: Labels
    edits: list[dict[str, Any]] = Field(description="All edits, as they were read.")
    comparison: Comparison
    attention: dict[str, Any] = Field(description="weights[layer][head][target token][source token]")
    view: str = Field(description="The attention as HTML for the web page.")


class Step(BaseModel):
    """The model's own numbers at one step; arrays are heads × source positions."""

    model: str
    labels: Labels = Field(description="`target` are the candidates.")
    source: list[str]
    step: int
    token: str
    log_prob: float | None
    candidates: list[tuple[str, float]]
    layers: list[dict[str, Any]] = Field(description="scores, masked, weights and contributions of each layer")


class Tree(BaseModel):
    """A beam search, parents before children."""

    model: str
    text: str
    beam: int
    length_penalty: float
    finished: list[int] = Field(description="Numbers of the finished nodes, best first.")
    labels: list[str] = Field(description="The token of each node as people read it.")
    nodes: list[dict[str, Any]] = Field(
        description="number, parent, token, step, token_log_prob, log_prob, score, and status: kept, pruned or finished"
    )


class Own(BaseModel):
    """A Transformer's attention to itself, as traces; null for a side that has none."""

    model: str
    labels: Labels
    encoder: dict[str, Any] | None
    decoder: dict[str, Any] | None = Field(description="Its source is the start token and what was written before.")


class Measures(BaseModel):
    """Other measures of what matters, beside the attention; matrices are target × source, and null at marks."""

    model: str
    labels: Labels
    occlusion: list[list[float | None]]
    gradient: list[list[float | None]] | None
    attention: list[list[float | None]] | None
    entropy: list[float | None]
    coverage: list[float | None]
    occlusion_agreement: dict[str, float | None] | None
    gradient_agreement: dict[str, float | None] | None
    head_agreement: list[list[float | None]]
    findings: list[str] = Field(description="What the numbers say, in plain words.")
