"""All settings, as frozen dataclasses. A default is written once, here; the string under a field is its help.

`regard.config_io` reads, checks, overrides and writes them; `regard.presets` names complete ones.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataConfig:
    """Where the sentence pairs, or the pictures, come from, and the maximum length."""

    train: tuple[str, ...] = ()
    """Training corpus: two parallel files (a third: alignments), a .tsv, .jsonl or .txt file, pictures (scenes,
    fashion-mnist, a folder, an .npz file of regions; a captions file may follow), or an embedded name."""
    valid: tuple[str, ...] = ()
    """Validation corpus, in the same forms; for an embedded corpus its held-out part is the default."""
    held_out: int = 0
    """Sources of the training corpus to hold out for validation, at most a fifth of the distinct ones; 0 for none."""
    mixed: tuple[str, ...] = ()
    """Several training corpora instead of one, each CORPUS or CORPUS*WEIGHT: how many times an epoch has each pair."""
    tagged: tuple[str, ...] = ()
    """Several training corpora instead of one, each TAG=CORPUS (de=train.en,train.de): the tag chooses the output."""
    valid_tagged: tuple[str, ...] = ()
    """Validation corpora with the same tags."""
    from_language: tuple[str, ...] = ()
    """Languages of the sources, as codes (en, pt-BR, zh-Hant): regard serve routes requests by them."""
    to_language: str = ""
    """Language of the targets; with data.tagged, the tags that are language codes say it."""
    max_length: int = 128
    """Pairs with more tokens than this on either side are left out of training, and counted."""
    plain_captions: bool = False
    """Captions from files: convert to lower case and drop punctuation, as captioning papers do, for scoring too."""


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes tokens."""

    kind: str = "bpe"
    """bpe, unigram, characters, words, or spelled (frequent words whole, all others letter by letter)."""
    vocabulary: int = 8000
    """Maximum size of a vocabulary."""
    joint: bool = True
    """One vocabulary for both sides (needed to tie source and target embeddings)."""
    target_kind: str = ""
    """Kind of the target side, if it differs from the source's (needs joint=false); empty for the same."""
    sampling: float = 0.0
    """Re-segment training texts each epoch. bpe: rate of merges left out (0.1); unigram: the power α (0.2)."""


@dataclass(frozen=True)
class EncoderConfig:
    """The network that reads the source."""

    kind: str = "recurrent"
    """Kind of encoder: regard list encoders."""
    cell: str = "gru"
    """gru or lstm."""
    layers: int = 1
    """Number of layers."""
    width: int = 256
    """Units of one direction of one layer."""
    bidirectional: bool = True
    """Bidirectional; states are then twice as wide (gnmt: the lowest layer only)."""
    residual: bool = False
    """Add each layer's input to its output from the second layer on (gnmt: from the third)."""
    feed_forward: int = 1024
    """transformer: hidden units of the feed-forward network."""
    activation: str = "relu"
    """transformer: activation of the feed-forward network, relu or gelu."""
    norm: str = "pre"
    """transformer: layer norm before each sublayer (pre), or after it (post, as in the paper)."""


@dataclass(frozen=True)
class DecoderConfig:
    """The network that generates the target."""

    kind: str = "bahdanau"
    """Kind of decoder, such as bahdanau (attend, then step) or luong (step, then attend): regard list decoders."""
    cell: str = "gru"
    """gru or lstm; the lstmn is a cell of its own."""
    layers: int = 1
    """Number of layers."""
    width: int = 512
    """Units of one layer."""
    residual: bool = False
    """Add each layer's input to its output from the second layer on (gnmt: from the third)."""
    input_feeding: bool = False
    """luong only: feed the attentional vector of a step into the next one."""
    readout: str = "maxout"
    """What comes before the output layer: maxout, tanh, sum, or none."""
    readout_width: int = 256
    """Units of the readout (maxout, tanh, sum)."""
    start: str = "last"
    """Source of the initial state: the encoder's last state, or the mean of all its states."""
    fusion: str = "deep"
    """lstmn: where the source's context enters: its memory (deep), or its gates as further input (shallow)."""
    context_dropout: float = 0.0
    """Recurrent decoders: rate of dropout on the encoder's states as the decoder attends to them."""
    output_dropout: float = -1.0
    """Recurrent decoders: rate of dropout before the output layer; -1 to use model.dropout."""
    feed_forward: int = 1024
    """transformer: hidden units of the feed-forward network."""
    activation: str = "relu"
    """transformer: activation of the feed-forward network, relu or gelu."""
    norm: str = "pre"
    """transformer: layer norm before each sublayer (pre), or after it (post, as in the paper)."""


@dataclass(frozen=True)
class AttentionConfig:
    """Attention: of the decoder to the encoder's states, or self-attention."""

    score: str = "additive"
    """How well a query fits a key: regard list scores."""
    reach: str = "global"
    """Which keys a query may attend to: regard list reaches."""
    focus: str = "softmax"
    """How scores become weights: regard list focuses."""
    width: int = 256
    """Units of the hidden layer of the scores that have one (additive, concat, tanh)."""
    heads: int = 1
    """Number of heads; several heads have learned projections of queries, keys, values and contexts."""
    groups: int = 0
    """Number of key and value heads, shared by the query heads; 0 for as many as heads, 1 for multi-query attention."""
    head_width: int = 0
    """Units of one head; 0 for the query width divided by the number of heads."""
    project: bool = False
    """Learned projections with a single head too."""
    values: bool = False
    """Learned projection of the values alone, if there are no other projections."""
    temperature: float = 1.0
    """Divisor of the scores: below 1 makes weights sharper, above 1 flatter."""
    learn_temperature: bool = False
    """Learn a temperature for each head."""
    soft_chance: float = 0.5
    """hard: probability, in training, of a soft attention step instead of a sampled one."""
    soft_first: int = 0
    """hard: number of training steps at the start in which all attention is soft."""
    window: int = 10
    """Width of local and window reaches, to each side; the length of a chunk."""
    stride: int = 4
    """Stride of dilated and strided reaches."""
    longest: int = 512
    """Maximum number of positions, for the location score and for learned positions."""
    coverage: str = "none"
    """How attention takes earlier steps into account: none, or one of regard list coverages."""
    pruned: tuple[str, ...] = ()
    """Heads to prune, as LAYER.HEAD, both counted from 0."""


@dataclass(frozen=True)
class ImageConfig:
    """The image encoder: it computes cells, which a decoder attends to as it would to words."""

    kind: str = "resnet"
    """How an image becomes cells: resnet, patches, or regions (given features): regard list stems."""
    channels: int = 3
    """Channels of an image: 3, or 1 for grey (regions: the width of a given feature)."""
    size: int = 32
    """Rows and columns of pixels that images are resized to (regions: of regions; 0 if they are objects anywhere)."""
    width: int = 128
    """Units of a cell (resnet: channels of the last stage; each stage before has half as many)."""
    stages: int = 3
    """resnet: stages; each but the first halves rows and columns."""
    units: int = 2
    """resnet: residual units in a stage."""
    standardised: bool = False
    """resnet: standardise each filter to mean zero and variance one (Qiao et al. 2019)."""
    normalise: str = "groups"
    """resnet: normalise over groups of each image's channels (groups), or over the images of a batch (batch)."""
    normalised: bool = False
    """regions: layer norm after the projection, so that the scale of given features does not matter."""
    block: str = "none"
    """resnet: attention block: none, or one of regard list blocks."""
    where: tuple[str, ...] = ()
    """resnet: stages that have the block, counted from 1; empty for all."""
    within: bool = False
    """resnet: put the block inside each unit, before its sum, rather than once after the stage."""
    reduction: int = 16
    """squeeze-excitation: channels divided by hidden units."""
    depth: int = 2
    """soft masks: number of times the branch halves rows and columns."""
    trunk: int = 0
    """soft masks: residual units in the trunk beside the mask; 0 to mask the input itself."""
    subsample: bool = False
    """non-local: max-pool keys and values over two by two cells."""
    patch: int = 4
    """patches: rows and columns of pixels in a patch."""
    positions: str = "none"
    """Position encoding of cells: none, or one of regard list grids."""
    contents: float = 0.0
    """Normalise cells to this scale before positions are added; 0 to leave them unnormalised."""
    layers: int = 0
    """Transformer layers over the cells, with model.self_attention."""
    feed_forward: int = 512
    """layers: hidden units of the feed-forward network."""
    activation: str = "gelu"
    """layers: activation of the feed-forward network, relu or gelu."""
    norm: str = "pre"
    """layers: layer norm before each sublayer (pre), or after it (post)."""
    pooling: str = "mean"
    """Summary of the image: the mean of the cells (mean), or a class token with attention in every layer (class)."""


@dataclass(frozen=True)
class QuestionsConfig:
    """How a question and an image become an answer (task answer); `model.encoder` reads the question.

    `model.attention` is the attention to the image. Without it (attention=none) the image is one vector, whatever the
    question: the mean of its cells, or its class token.
    """

    kind: str = "top-down"
    """Kind of model: regard list answerers."""
    fusion: int = 512
    """top-down: units of the layer that combines question and image."""
    pooling: str = "first"
    """cross: what predicts the answer: the question token (first), or the mean of all tokens (mean)."""
    summed: bool = False
    """cross: add a second attention whose weights need not sum to one, so that it can count (Zhang et al. 2018)."""
    shared: bool = False
    """cross: share the weights of all layers (Dehghani et al. 2019)."""


@dataclass(frozen=True)
class DetectionConfig:
    """Object queries (task detect): their kind, matching and losses."""

    queries: int = 8
    """Number of object queries: the most objects that can be found in an image."""
    kind: str = "anchors"
    """Kind of queries: learned (Carion et al. 2020), or anchors, which attend around a box that each layer refines."""
    mask_channels: int = 16
    """Channels of the mask head at full resolution; 0 for no masks."""
    mask_maps: int = 8
    """Attention maps per query that the mask head starts from."""
    nothing: float = 0.1
    """Weight, in the class loss, of queries without an object."""
    class_cost: float = 1.0
    """Weight of the right class's probability in matching."""
    l1: float = 5.0
    """Weight of the L1 distance of boxes, in matching and in the loss."""
    giou: float = 2.0
    """Weight of the generalised IoU of boxes, in matching and in the loss."""
    dice: float = 1.0
    """Weight of the dice loss of masks."""
    focal: float = 5.0
    """Weight of the focal loss of masks."""
    gamma: float = 2.0
    """Focusing parameter of the focal loss; 0 for cross-entropy."""


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
    """Variational dropout: drop the same units at every step of a sentence (Gal & Ghahramani 2016)."""
    reverse_source: bool = False
    """Read the source from its last word to its first (Sutskever et al. 2014)."""
    copy: bool = False
    """Pointer-generator: copy source tokens by attention, too (See et al. 2017)."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    attention: AttentionConfig | None = field(default_factory=AttentionConfig)
    """attention=none: no attention; the decoder gets the encoder's last state, one fixed vector."""
    self_attention: AttentionConfig = field(
        default_factory=lambda: AttentionConfig(score="scaled-dot", heads=4, project=True)
    )
    positions: str = "none"
    """Position encoding of tokens: none, or one of regard list positions."""
    image: ImageConfig | None = None
    """image=none: the model reads no images."""
    task: str = "write"
    """The output: write (a translation, a caption) or classify; for images also answer or detect."""
    hierarchical: bool = False
    """classify (texts): read each sentence by itself, then the text as a sequence of sentences (Yang et al. 2016)."""
    questions: QuestionsConfig = field(default_factory=QuestionsConfig)
    detection: DetectionConfig = field(default_factory=DetectionConfig)


@dataclass(frozen=True)
class TrainingConfig:
    """How the network is trained."""

    optimizer: str = "adam"
    """adam, adamw or sgd."""
    learning_rate: float = 1e-3
    """Peak learning rate."""
    weight_decay: float = 0.0
    """Weight decay (adamw, sgd)."""
    momentum: float = 0.0
    """sgd: Nesterov momentum; 0 for none."""
    beta2: float = 0.999
    """Decay of the running mean of squared gradients (adam, adamw)."""
    schedule: str = "plateau"
    """constant, inverse-sqrt, plateau (multiply by plateau_factor when validation stalls) or cosine."""
    warmup: int = 0
    """Steps of linear warm-up."""
    plateau_factor: float = 0.5
    """plateau: factor of the learning rate at each drop."""
    plateau_patience: int = 1
    """plateau: validations without a better score before the rate drops."""
    clip: float = 1.0
    """Maximum norm of the gradient; 0 for no clipping."""
    label_smoothing: float = 0.0
    """Probability mass taken from the right word and spread over all."""
    teacher_forcing: float = 1.0
    """Final probability that the decoder reads the right previous token, not its own: below 1, scheduled sampling."""
    teacher_forcing_schedule: str = "constant"
    """How it falls from 1 over the planned steps (constant: final value from the start): regard list forcings."""
    r_drop: float = 0.0
    """Weight of the divergence between two passes with different dropout, about 1 to 5 (doubles the work)."""
    coverage_loss: float = 0.0
    """Weight of the penalty on attending to the same positions again (needs model.attention.coverage)."""
    guided: float = 0.0
    """Weight of the loss that guides attention to gold alignments; with images, to named objects (scenes only)."""
    guided_layer: int = -1
    """guided: layer of the attention to guide, from 0; -1 is the last."""
    guided_head: int = -1
    """guided: head to guide, from 0; -1 for their mean."""
    guided_shift: bool = False
    """guided: guide the attention of the next step, which knows the word (then read alignments with --shift)."""
    reinforce: float = 1.0
    """Weight of the reward of hard attention (focus hard)."""
    doubly_stochastic: float = 0.0
    """Weight of the penalty on a caption's attention that neglects or favours cells of an image (Xu et al. 2015)."""
    entropy: float = 0.01
    """Weight of the entropy bonus that keeps hard attention from deciding too early (focus hard)."""
    flip: bool = False
    """classify: mirror pictures left to right, half of the time."""
    shift: int = 0
    """classify: shift pictures by up to this many rows and columns of pixels."""
    told: int = 1
    """write: captions per picture in a batch, which is encoded once for all; 1 groups captions by length."""
    asked: int = 8
    """answer: questions per picture in a batch; a picture with fewer repeats some."""
    batch_tokens: int = 4000
    """Tokens in a batch, padding included, on the longer side; a picture counts as 16 of them."""
    accumulate: int = 1
    """Batches to accumulate gradients over before each step."""
    epochs: int = 20
    """Maximum number of passes over the corpus."""
    steps: int = 0
    """Maximum number of steps; 0 for as many as the epochs give."""
    minutes: float = 0.0
    """Time limit in minutes; 0 for none. Epochs and steps limit training too: --minutes lifts them."""
    precision: str = "auto"
    """float32; tf32, coarser products on a GPU; bfloat16 (autocast); auto: bfloat16 or tf32 if the device has it."""
    average: str = "none"
    """Weight averaging: none, last (the mean of the last checkpoints), best (of the best ones) or ema (exponential)."""
    average_last: int = 5
    """last, best: number of checkpoints."""
    ema_decay: float = 0.999
    """ema: decay of the average at each step."""
    validate_every: int = 0
    """Steps between validations; 0 for once an epoch, or with minutes about ten in all."""
    save_every: int = 1000
    """Steps between checkpoints, which are also made at each validation; 0 for only then."""
    metric: str = "bleu"
    """Score that selects the best model: bleu, chrf or exact (of decoded text), accuracy, f1 (texts), ap or loss."""
    patience: int = 5
    """Early stopping: validations without a better score, not counting the warm-up; 0 for never."""
    log_every: int = 50
    """Steps between lines in metrics.jsonl."""
    device: str = "auto"
    """auto, cpu, or cuda."""
    shard: bool = False
    """Several processes: cut weights, gradients and the optimizer's state up among them (FSDP2), to save memory."""
    graphs: bool = True
    """On a GPU, capture each step as a CUDA graph, once per batch shape, and replay it."""


@dataclass(frozen=True)
class DecodingConfig:
    """How translations are searched."""

    method: str = "beam"
    """Decoding method, such as beam or sample: regard list methods."""
    beam: int = 5
    """beam, diverse: hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = 1.0
    """alpha of Wu et al. 2016; 0 for none."""
    coverage_penalty: float = 0.0
    """beta of Wu et al. 2016; 0 for none."""
    patience: float = 0.0
    """Stop after patience × beam finished hypotheses (Kasai et al. 2022); 0: when no live one can beat them."""
    min_length: int = 0
    """Minimum number of tokens, without the end token."""
    max_length: int = 0
    """Maximum number of tokens, with the end token; 0 for the limit by max_ratio."""
    max_ratio: float = 2.0
    """Maximum number of tokens per source token, plus ten that are always allowed; training raises it if needed."""
    replace_unknown: bool = False
    """Replace unknown tokens by the source word or character with most attention (words, characters, spelled)."""
    keep: str = ""
    """beam: a regular expression whose matches in a source must occur in the translation, such as <[^>]+>."""
    groups: int = 0
    """diverse: number of groups, which avoid each other's tokens; 0 for one per hypothesis."""
    diversity: float = 0.5
    """diverse: penalty on a token for each earlier group that has chosen it at this step; 0 for none."""
    temperature: float = 1.0
    """sample, mbr: below 1, probable tokens are drawn more often than the model says; above 1, less often."""
    top_k: int = 0
    """sample, mbr: draw among this many most probable tokens; 0 for all."""
    top_p: float = 1.0
    """sample, mbr: draw among the most probable tokens whose total probability is this; 1 for all."""
    samples: int = 32
    """mbr: number of samples to choose from."""
    mbr_metric: str = "chrf"
    """mbr: similarity of two samples: regard list utilities."""
    seed: int = 1
    """sample, mbr: random seed; samples depend on it and on the text (or picture) alone."""
    ensemble: str = "arithmetic"
    """Mean over an ensemble: arithmetic (of probabilities), or geometric (of log-probabilities, renormalised)."""
    precision: str = "float32"
    """beam, on a CPU: float32, or bfloat16 or int8, which are faster if the CPU supports them (regard doctor)."""
    shortlist: int = 0
    """Likely words considered for each source word (64 at most), plus the most frequent words; 0 for all words."""


@dataclass(frozen=True)
class Config:
    """The complete configuration of a model, as stored in its config.toml."""

    preset: str = ""
    """The preset this started from."""
    started_from: str = ""
    """The model folder whose weights and vocabulary this started from: regard train --from."""
    seed: int = 1
    """Seed of all randomness."""
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
