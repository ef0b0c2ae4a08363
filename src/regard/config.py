"""All settings, as frozen dataclasses. A default is written once, here; the string under a field is its help.

`regard.config_io` reads, checks, overrides and writes them; `regard.presets` names complete ones.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataConfig:
    """Where the sentence pairs, or the pictures, come from, and which are too long."""

    train: tuple[str, ...] = ()
    """Training corpus: two parallel files (a third: alignments), a .tsv, .jsonl or .txt file, pictures (scenes,
    fashion-mnist, a folder, an .npz file of regions; a captions file may follow), or an embedded name."""
    valid: tuple[str, ...] = ()
    """Validation corpus, in the same forms; for an embedded corpus its held-out part is the default."""
    held_out: int = 0
    """Sources of the training corpus to hold out for validation, at most a fifth of the different ones; 0 for none."""
    mixed: tuple[str, ...] = ()
    """Several training corpora instead of one, each CORPUS or CORPUS*WEIGHT: how often an epoch has each pair."""
    tagged: tuple[str, ...] = ()
    """Several training corpora instead of one, each TAG=CORPUS (de=train.en,train.de): the tag tells what to write."""
    valid_tagged: tuple[str, ...] = ()
    """Validation corpora of these, with the same tags."""
    max_length: int = 128
    """Pairs with more tokens than this on either side are left out of training, and counted."""
    plain_captions: bool = False
    """Take captions from files in lower case and without punctuation, as papers on captions do, to score them too."""


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes tokens."""

    kind: str = "bpe"
    """bpe, unigram, characters, words, or spelled (frequent words whole, all others letter by letter)."""
    vocabulary: int = 8000
    """Most entries that a vocabulary may have."""
    joint: bool = True
    """One vocabulary for both sides (needed to tie source and target embeddings)."""
    target_kind: str = ""
    """Kind of the target side, where it is another than the source's (needs joint=false); empty for the same."""
    sampling: float = 0.0
    """Cut training texts anew each epoch. bpe: how often a merge is left out (0.1); unigram: the power α (0.2)."""


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
    """Read in both directions; states are then twice as wide (gnmt: the lowest layer only)."""
    residual: bool = False
    """Add each layer's input to its output from the second layer on (gnmt: from the third)."""
    feed_forward: int = 1024
    """transformer: units of the layer between two looks."""
    activation: str = "relu"
    """transformer: what bends the units of that layer: relu, or gelu."""
    norm: str = "pre"
    """transformer: normalise before each part of a layer (pre) or after it, as the paper did (post)."""


@dataclass(frozen=True)
class DecoderConfig:
    """The network that writes the target."""

    kind: str = "bahdanau"
    """What writes, such as bahdanau (look, then step) or luong (step, then look): regard list decoders."""
    cell: str = "gru"
    """gru or lstm; the lstmn is a cell of its own."""
    layers: int = 1
    """Layers of it, one above the other."""
    width: int = 512
    """Units of one layer."""
    residual: bool = False
    """Add each layer's input to its output from the second layer on (gnmt: from the third)."""
    input_feeding: bool = False
    """luong only: feed the attentional vector of a step into the next one."""
    readout: str = "maxout"
    """What stands before the output layer: maxout, tanh, sum, or none."""
    readout_width: int = 256
    """Units of the readout (maxout, tanh, sum)."""
    start: str = "last"
    """What the first state is made of: the encoder's last state, or the mean of all its states."""
    fusion: str = "deep"
    """lstmn: what it sees of the source goes into its memory (deep), or into its gates as further input (shallow)."""
    context_dropout: float = 0.0
    """Recurrent decoders: rate of dropout on the encoder's states where the decoder looks at them."""
    output_dropout: float = -1.0
    """Recurrent decoders: rate of dropout before the output layer; -1 for that of model.dropout."""
    feed_forward: int = 1024
    """transformer: units of the layer after the looks."""
    activation: str = "relu"
    """transformer: what bends the units of that layer: relu, or gelu."""
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
    soft_chance: float = 0.5
    """hard: how often, in training, a look is the soft one instead of a sampled one."""
    soft_first: int = 0
    """hard: steps of training in which all looks are soft, before any is sampled."""
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
class ImageConfig:
    """The network that reads an image, or regions of one: it makes cells, which a decoder looks at as at words."""

    kind: str = "resnet"
    """How an image becomes cells: resnet, patches, or regions (features that are given): regard list stems."""
    channels: int = 3
    """Colours of an image: 3, or 1 for grey (regions: the width of a given feature)."""
    size: int = 32
    """Rows and columns of pixels that images are resized to (regions: of regions; 0 if they are objects anywhere)."""
    width: int = 128
    """Units of a cell (resnet: channels of the last stage; each stage before has half as many)."""
    stages: int = 3
    """resnet: stages; each but the first halves rows and columns."""
    units: int = 2
    """resnet: residual units in a stage."""
    standardised: bool = False
    """resnet: give the weights of each filter a mean of zero and a variance of one (Qiao et al. 2019)."""
    normalise: str = "groups"
    """resnet: normalise over groups of each image's channels (groups), or over the images of a batch (batch)."""
    normalised: bool = False
    """regions: normalise what they are mapped to, so that the scale of given features does not matter."""
    block: str = "none"
    """resnet: a block of attention: none, or one of regard list blocks."""
    where: tuple[str, ...] = ()
    """resnet: stages that have the block, counted from 1; empty for all."""
    within: bool = False
    """resnet: the block stands in each unit before its sum, and not once after the stage."""
    reduction: int = 16
    """squeeze-excitation: how many times fewer units than channels lie between."""
    depth: int = 2
    """soft masks: how often rows and columns are halved on the way down."""
    trunk: int = 0
    """soft masks: residual units beside the mask; 0 if what is masked is what came in."""
    subsample: bool = False
    """non-local: look at the largest of every two by two cells."""
    patch: int = 4
    """patches: rows and columns of pixels in one."""
    positions: str = "none"
    """How a cell knows where it lies: none, or one of regard list grids."""
    contents: float = 0.0
    """Normalise what a cell holds to so much of unit variance before its place is added; 0: leave it as it is."""
    layers: int = 0
    """Transformer layers in which cells look at each other, by model.self_attention."""
    feed_forward: int = 512
    """layers: units between two looks."""
    activation: str = "gelu"
    """layers: what bends these units: relu, or gelu."""
    norm: str = "pre"
    """layers: normalise before each part of a layer (pre) or after it (post)."""
    pooling: str = "mean"
    """What the whole image is: the mean of its cells, or a class token that looks at them in every layer (class)."""


@dataclass(frozen=True)
class QuestionsConfig:
    """How a question and an image become an answer (task answer); `model.encoder` is what reads the question.

    `model.attention` is how the image is looked at. Without it (attention=none) all that is known of the image is one
    vector, whatever the question: its mean, or its class token.
    """

    kind: str = "top-down"
    """What answers: regard list answerers."""
    fusion: int = 512
    """top-down: units in which question and image meet."""
    pooling: str = "first"
    """cross: what the answer is read from, the question mark that stands first (first), or the mean of all words."""
    summed: bool = False
    """cross: beside each look another whose weights do not sum to one: it tells how many fit (Zhang et al. 2018)."""
    shared: bool = False
    """cross: every layer has the same weights: what finds one thing also finds the next (Dehghani et al. 2019)."""


@dataclass(frozen=True)
class DetectionConfig:
    """Object queries (task detect): what they are, how they are matched, and what is made small."""

    queries: int = 8
    """Object queries: the most objects that can be found in an image."""
    kind: str = "anchors"
    """What a query is: learned (Carion et al. 2020), or anchors, which look around a box that each layer moves."""
    mask_channels: int = 16
    """Channels of the mask head where it is as fine as the image; 0 for no masks."""
    mask_maps: int = 8
    """Maps of attention over cells that a mask begins with."""
    nothing: float = 0.1
    """What a query that answers for no object weighs in the loss of classes."""
    class_cost: float = 1.0
    """What the probability of the right class weighs in matching."""
    l1: float = 5.0
    """What the distance of boxes weighs, in matching and in the loss."""
    giou: float = 2.0
    """What the generalised IoU of boxes weighs, in matching and in the loss."""
    dice: float = 1.0
    """What the dice loss of masks weighs."""
    focal: float = 5.0
    """What the focal loss of masks weighs."""
    gamma: float = 2.0
    """How much less focal loss minds pixels that are right already; 0 for cross-entropy."""


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
    copy: bool = False
    """Copy source tokens as well as writing them: a pointer-generator over the attention (See et al. 2017)."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    attention: AttentionConfig | None = field(default_factory=AttentionConfig)
    """attention=none: no attention at all; the decoder gets the encoder's last state, one fixed vector."""
    self_attention: AttentionConfig = field(
        default_factory=lambda: AttentionConfig(score="scaled-dot", heads=4, project=True)
    )
    positions: str = "none"
    """How a model knows where a token stands: none, or one of regard list positions."""
    image: ImageConfig | None = None
    """image=none: the model reads no images."""
    task: str = "write"
    """What is made of what was read: write (a translation, a caption) or classify; of images also answer or detect."""
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
    """The highest learning rate."""
    weight_decay: float = 0.0
    """Weight decay (adamw, sgd)."""
    momentum: float = 0.0
    """sgd: how much of the last steps is kept at each step (Nesterov's momentum); 0 for none."""
    beta2: float = 0.999
    """How much of the mean of squared gradients is kept at each step (adam, adamw)."""
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
    teacher_forcing: float = 1.0
    """How often, in the end, the decoder reads the right word of before and not one of its own: scheduled sampling."""
    teacher_forcing_schedule: str = "constant"
    """How that falls from 1 over the planned steps (constant: it is there from the first): regard list forcings."""
    r_drop: float = 0.0
    """Weight of the disagreement between two passes with different dropout, about 1 to 5 (takes twice the work)."""
    coverage_loss: float = 0.0
    """Weight of the penalty on looking where earlier looks went (needs model.attention.coverage)."""
    guided: float = 0.0
    """Weight of the loss that draws looks to gold alignments; in pictures, to what words speak of (scenes alone)."""
    guided_layer: int = -1
    """guided: which layer of looks at the source, from 0; -1 is the last."""
    guided_head: int = -1
    """guided: which of its heads, from 0; -1 for their mean."""
    guided_shift: bool = False
    """guided: the look one step later, which knows the word (read alignments off with --shift then)."""
    reinforce: float = 1.0
    """Weight of the reward for where hard attention looked (focus hard)."""
    doubly_stochastic: float = 0.0
    """Weight of the penalty on cells of an image that a caption's looks pass over or dwell on (Xu et al. 2015)."""
    entropy: float = 0.01
    """Weight of the entropy that keeps hard attention from choosing too soon (focus hard)."""
    flip: bool = False
    """classify: mirror pictures left to right, half of the time."""
    shift: int = 0
    """classify: shift pictures by up to so many rows and columns of pixels."""
    told: int = 1
    """write: captions of each picture of a batch, which is read once for them all; 1 groups them by length."""
    asked: int = 8
    """answer: questions about each picture of a batch; where a picture has fewer, some are asked twice."""
    batch_tokens: int = 4000
    """Tokens in a batch, padding included, on the longer side; a picture counts as 16 of them."""
    accumulate: int = 1
    """Batches whose gradients make one step."""
    epochs: int = 20
    """Most passes over the corpus."""
    steps: int = 0
    """Most steps; 0 for as many as the epochs give."""
    minutes: float = 0.0
    """Minutes that training may take; 0 for no limit. Epochs and steps limit it too: --minutes lifts them."""
    precision: str = "auto"
    """float32; tf32, coarser products on a GPU; bfloat16 (autocast); auto: bfloat16 or tf32 where the device has it."""
    average: str = "none"
    """Weight averaging: none, last (the mean of the last checkpoints), best (of the best ones) or ema (exponential)."""
    average_last: int = 5
    """last, best: how many checkpoints."""
    ema_decay: float = 0.999
    """ema: how much of the average is kept at each step."""
    validate_every: int = 0
    """Steps between validations; 0 for once an epoch, or with minutes some ten in all."""
    save_every: int = 1000
    """Steps between checkpoints, which are also made at each validation; 0 for only then."""
    metric: str = "bleu"
    """What decides which model is best and when to stop: bleu, chrf or exact (whole lines right) of what is decoded,
    accuracy (classify, answer), f1 (classify texts), ap (detect) or loss."""
    patience: int = 5
    """Validations without a better score before training stops, those of the warm-up not counted; 0 for never."""
    log_every: int = 50
    """Steps between lines in metrics.jsonl."""
    device: str = "auto"
    """auto, cpu, or cuda."""
    shard: bool = False
    """Several processes: cut weights, gradients and the optimizer's state up among them (FSDP2), to save memory."""
    graphs: bool = True
    """On a GPU, record the kernels of a step once for each shape of a batch, and replay them (CUDA graphs)."""


@dataclass(frozen=True)
class DecodingConfig:
    """How translations are searched."""

    method: str = "beam"
    """How tokens are chosen, such as beam or sample: regard list methods."""
    beam: int = 5
    """beam, diverse: hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = 1.0
    """alpha of Wu et al. 2016; 0 for none."""
    coverage_penalty: float = 0.0
    """beta of Wu et al. 2016; 0 for none."""
    patience: float = 0.0
    """Stop when patience × beam hypotheses have ended (Kasai et al. 2022); 0: when no other can beat what has."""
    min_length: int = 0
    """Fewest tokens, without the end mark."""
    max_length: int = 0
    """Most tokens, the end mark included; 0 for as many as max_ratio allows."""
    max_ratio: float = 2.0
    """Most tokens for each source token, beside ten that are always allowed; training raises it if its pairs do."""
    replace_unknown: bool = False
    """Replace what is unknown by the source word or character most looked at (tokenizer words, characters, spelled)."""
    keep: str = ""
    """beam: a regular expression whose matches in a source must occur in the translation, such as <[^>]+>."""
    groups: int = 0
    """diverse: groups that the beam is split into, which keep away from each other; 0 for one for each hypothesis."""
    diversity: float = 0.5
    """diverse: what a token costs for each earlier group that has chosen it at this step; 0 for nothing."""
    temperature: float = 1.0
    """sample, mbr: below 1 what is probable is drawn more often than the model says, above 1 less often."""
    top_k: int = 0
    """sample, mbr: draw among this many most probable tokens; 0 for all."""
    top_p: float = 1.0
    """sample, mbr: draw among the most probable tokens that have this probability together; 1 for all."""
    samples: int = 32
    """mbr: samples to choose from."""
    mbr_metric: str = "chrf"
    """mbr: what says how alike two samples are: regard list utilities."""
    seed: int = 1
    """sample, mbr: what is drawn comes from it and from the text (or picture) alone."""
    ensemble: str = "arithmetic"
    """Mean of several models: arithmetic (of probabilities), or geometric (of log-probabilities, normalised again)."""
    precision: str = "float32"
    """beam, on a CPU: float32, or bfloat16 or int8, which are faster where the CPU multiplies so (regard doctor)."""
    shortlist: int = 0
    """Words considered for each source word (64 at most), as training saw them, beside the most frequent; 0 for all."""


@dataclass(frozen=True)
class Config:
    """Everything about a model: a model folder's config.toml holds exactly this."""

    preset: str = ""
    """The preset this started from."""
    started_from: str = ""
    """The model folder whose weights and vocabulary this started from: regard train --from."""
    seed: int = 1
    """All randomness comes from it."""
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
