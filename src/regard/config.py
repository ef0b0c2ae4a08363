"""All settings, as frozen dataclasses. A default is written once, here; the string under a field is its help.

`regard.settings` reads, checks, overrides and writes them; `regard.presets` names complete ones.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataConfig:
    """Where the sentence pairs come from, and which are too long."""

    train: tuple[str, ...] = ()
    """Training corpus: two parallel files, one .tsv or .jsonl file (also .gz, .xz), or an embedded name."""
    valid: tuple[str, ...] = ()
    """Validation corpus, in the same forms; for an embedded corpus its held-out part is the default."""
    max_length: int = 128
    """Pairs with more tokens than this on either side are left out of training, and counted."""


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes tokens."""

    kind: str = "bpe"
    """bpe, unigram, characters or words."""
    vocabulary: int = 8000
    """Most entries that a vocabulary may have."""
    joint: bool = True
    """One vocabulary for both sides (needed to tie source and target embeddings)."""


@dataclass(frozen=True)
class EncoderConfig:
    """The network that reads the source."""

    kind: str = "recurrent"
    """What reads: regard list encoders."""
    cell: str = "gru"
    """gru or lstm."""
    layers: int = 1
    """Layers of it, one above the other."""
    width: int = 256
    """Units of one direction of one layer."""
    bidirectional: bool = True
    """Read in both directions; states are then twice as wide."""
    residual: bool = False
    """Add each layer's input to its output from the second layer on."""
    feed_forward: int = 1024
    """transformer: units of the layer between two looks."""
    norm: str = "pre"
    """transformer: normalise before each part of a layer (pre) or after it, as the paper did (post)."""


@dataclass(frozen=True)
class DecoderConfig:
    """The network that writes the target."""

    kind: str = "bahdanau"
    """What writes, such as bahdanau (look, then step) or luong (step, then look): regard list decoders."""
    cell: str = "gru"
    """gru or lstm."""
    layers: int = 1
    """Layers of it, one above the other."""
    width: int = 512
    """Units of one layer."""
    residual: bool = False
    """Add each layer's input to its output from the second layer on."""
    input_feeding: bool = False
    """luong only: feed the attentional vector of a step into the next one."""
    readout: str = "maxout"
    """What stands before the output layer: maxout, tanh, or none."""
    readout_width: int = 256
    """Units of the readout (maxout, tanh)."""
    start: str = "last"
    """What the first state is made of: the encoder's last state, or the mean of all its states."""
    feed_forward: int = 1024
    """transformer: units of the layer after the looks."""
    norm: str = "pre"
    """transformer: normalise before each part of a layer (pre) or after it, as the paper did (post)."""


@dataclass(frozen=True)
class AttentionConfig:
    """How a model looks: its decoder at the encoder's states, or a sequence at itself."""

    score: str = "additive"
    """How well a query fits a key: regard list scores."""
    reach: str = "global"
    """Which keys may be looked at: regard list reaches."""
    focus: str = "softmax"
    """How scores become weights: regard list focuses."""
    width: int = 256
    """Units of the hidden layer of the scores that have one (additive, concat, tanh)."""
    heads: int = 1
    """Looks at once; more than one have learned projections of queries, keys, values and contexts."""
    groups: int = 0
    """Heads of keys and values, shared by the heads of queries; 0 for as many, 1 for multi-query attention."""
    head_width: int = 0
    """Units of one head; 0 for the query's width over the number of heads."""
    project: bool = False
    """Learned projections with one head too."""
    values: bool = False
    """Learned projection of the values alone, where there are no others."""
    temperature: float = 1.0
    """What scores are divided by: below 1 sharper, above 1 flatter."""
    learn_temperature: bool = False
    """Let each head learn a temperature of its own."""
    window: int = 10
    """How far local and window reaches see, to each side; the length of a chunk."""
    stride: int = 4
    """Distance between what dilated and strided reaches see."""
    longest: int = 512
    """Most positions, for the location score and for positions that are learned."""
    coverage: str = "none"
    """How a look knows what earlier looks have seen: none, or one of regard list coverages."""
    pruned: tuple[str, ...] = ()
    """Heads to leave out, as LAYER.HEAD, both counted from 0."""


@dataclass(frozen=True)
class ModelConfig:
    """The network."""

    embedding: int = 256
    """Width of word embeddings."""
    tie: str = "none"
    """Shared embeddings: none, output (target embeddings are the output layer), or all (source too; joint only)."""
    dropout: float = 0.2
    """Rate of dropout on embeddings, between layers and before the output layer."""
    variational: bool = False
    """Drop the same units at every step of a sentence (Gal & Ghahramani 2016)."""
    reverse_source: bool = False
    """Read the source from its last word to its first (Sutskever et al. 2014)."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    attention: AttentionConfig | None = field(default_factory=AttentionConfig)
    """attention=none: no attention at all; the decoder gets the encoder's last state, one fixed vector."""
    self_attention: AttentionConfig = field(
        default_factory=lambda: AttentionConfig(score="scaled-dot", heads=4, project=True)
    )
    positions: str = "none"
    """How a model knows where a token stands: none, or one of regard list positions."""


@dataclass(frozen=True)
class TrainingConfig:
    """How the network is trained."""

    optimizer: str = "adam"
    """adam, adamw or sgd."""
    learning_rate: float = 1e-3
    """The highest learning rate."""
    weight_decay: float = 0.0
    """Weight decay (adamw, sgd)."""
    schedule: str = "plateau"
    """constant, inverse-sqrt, plateau (multiply by plateau_factor when validation stalls) or cosine."""
    warmup: int = 0
    """Steps of linear warm-up."""
    plateau_factor: float = 0.5
    """plateau: what the rate is multiplied by."""
    plateau_patience: int = 1
    """plateau: validations without a better score before the rate drops."""
    clip: float = 1.0
    """Largest norm of the gradient; 0 for no clipping."""
    label_smoothing: float = 0.0
    """Probability mass taken from the right word and spread over all."""
    batch_tokens: int = 4000
    """Tokens in a batch, padding included, on the longer side."""
    accumulate: int = 1
    """Batches whose gradients make one step."""
    epochs: int = 20
    """Most passes over the corpus."""
    steps: int = 0
    """Most steps; 0 for as many as the epochs give."""
    precision: str = "float32"
    """float32, or bfloat16 (autocast)."""
    average: str = "none"
    """Weight averaging: none, last (the mean of the last checkpoints) or ema (exponential)."""
    average_last: int = 5
    """last: how many checkpoints."""
    ema_decay: float = 0.999
    """ema: how much of the average is kept at each step."""
    validate_every: int = 0
    """Steps between validations; 0 for once an epoch."""
    save_every: int = 1000
    """Steps between checkpoints, which are also made at each validation; 0 for only then."""
    metric: str = "bleu"
    """What decides which model is best and when to stop: bleu (decoded) or loss."""
    patience: int = 5
    """Validations without a better score before training stops; 0 for never."""
    log_every: int = 50
    """Steps between lines in metrics.jsonl."""
    device: str = "auto"
    """auto, cpu, or cuda."""


@dataclass(frozen=True)
class DecodingConfig:
    """How translations are searched."""

    beam: int = 5
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = 1.0
    """alpha of Wu et al. 2016; 0 for none."""
    coverage_penalty: float = 0.0
    """beta of Wu et al. 2016; 0 for none."""
    min_length: int = 0
    """Fewest tokens, without the end mark."""
    max_length: int = 0
    """Most tokens, the end mark included; 0 for as many as max_ratio allows."""
    max_ratio: float = 2.0
    """Most tokens for each source token, beside ten that are always allowed; training raises it if its pairs do."""
    replace_unknown: bool = False
    """Replace an unknown word by the source word most looked at (tokenizer words)."""


@dataclass(frozen=True)
class Config:
    """Everything about a model: a model folder's config.toml holds exactly this."""

    preset: str = ""
    """The preset this started from."""
    seed: int = 1
    """All randomness comes from it."""
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
