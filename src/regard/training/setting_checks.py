"""Training settings that cannot be followed, found before anything is done."""

import math
from dataclasses import replace

import torch

from regard.config import Config, TrainingConfig
from regard.data.configured_corpora import check_corpora
from regard.data.line_files import STDIN
from regard.data.tokenizers import check_kinds
from regard.decoding.model_loading import find_device
from regard.decoding.search import check_options
from regard.distributed import current
from regard.errors import ConfigError, did_you_mean
from regard.models.build import TRANSFORMER
from regard.prepacked_matmul import multiplies_bfloat16
from regard.task import build_empty, check_task, task_of
from regard.training.learning_rate_schedule import schedules
from regard.training.optimizer import optimizers
from regard.training.scheduled_sampling import forcings
from regard.training.weight_averaging import averages

PRECISIONS = ("float32", "tf32", "bfloat16", "auto")
METRICS = ("bleu", "chrf", "exact", "accuracy", "f1", "ap", "loss")
FILES_WITH_LINKS = 3
"""Source, target, and which word of one belongs to which of the other."""
TRANSLATION = "translation"
DEVICES = ("auto", "cpu", "cuda")
RECURRENT = ("residual", "readout", "start", "context_dropout", "output_dropout")
"""Settings of a decoder that a Transformer has no use for."""


def check(config: Config, resume: bool = False) -> torch.device:
    """Raise a ConfigError for training settings that cannot be followed; return the device.

    What has no effect is refused where a run begins. One that began with it can go on, as it could not without.
    """
    settings = config.training
    _ = optimizers[settings.optimizer], schedules[settings.schedule], averages[settings.average]
    _ = forcings[settings.teacher_forcing_schedule]
    for name, value, allowed in (
        ("precision", settings.precision, PRECISIONS),
        ("metric", settings.metric, METRICS),
        ("device", settings.device.partition(":")[0], DEVICES),
    ):
        if value not in allowed:
            hint = "" if name == "device" else did_you_mean(value, allowed)  # "gpu" is near "cpu", and means cuda
            raise ConfigError(f"training.{name} is {value!r}; it must be one of {', '.join(allowed)}.{hint}")
    _check_shared(config)
    check_corpora(config.data)
    if not (config.data.train or config.data.mixed or config.data.tagged):
        raise ConfigError("data.train is empty: give a training corpus.")
    if STDIN in config.data.valid:
        raise ConfigError("data.valid cannot be standard input, which can be read only once: give a file.")
    check_task(config.model)
    task_of(config.model).check(config)
    _check_numbers(config)
    _check_model(config)
    if not resume:
        _check_effects(config)
    _check_losses(config)
    check_options(config.decoding)
    return device_of(config)


def check_links(*configs: Config) -> None:
    """Raise a ConfigError for alignments that guide nothing, in none of the runs that share them."""
    if not all(len(config.data.train) == FILES_WITH_LINKS for config in configs):
        return
    if any(config.training.guided > 0 for config in configs):
        return
    able = any(config.model.attention is not None for config in configs)
    raise ConfigError(
        f"{configs[0].data.train[-1]} holds alignments, which are there to guide the attention, and training.guided is "
        f"0{' in every variant' if len(configs) > 1 else ''}: "
        + ("set its weight, such as training.guided=0.5, or leave the alignments out." if able else "leave them out.")
    )


def settled(config: Config, device: torch.device, before: Config | None = None) -> Config:
    """Say what `auto` means: the precision of the run `before` that is gone on with, or else the fastest safe one here.

    A model folder tells what it was, so that a run goes on in it on any machine.
    """
    if config.training.precision != "auto":
        return config
    found = "auto" if before is None else before.training.precision
    if found == "auto":
        found = fastest(device)
    return replace(config, training=replace(config.training, precision=found))


def fastest(device: torch.device) -> str:
    """Return the precision that a device is fastest in among those that teach a model as much as float32 does."""
    if device.type == "cpu":
        return "bfloat16" if multiplies_bfloat16() else "float32"
    nvidia = device.type == "cuda" and torch.version.hip is None
    return "tf32" if nvidia and torch.cuda.get_device_capability(device) >= (8, 0) else "float32"


def _check_shared(config: Config) -> None:
    """Refuse what several processes cannot do, and what one cannot."""
    world, image = current(), config.model.image
    if config.training.shard and not world.joined:
        raise ConfigError(
            "training.shard=true cuts a model up over several processes: start them with regard train --devices N or "
            "torchrun, or set it to false."
        )
    if world.size > 1 and image is not None and image.normalise == "batch":
        raise ConfigError(
            f"model.image.normalise=batch normalises over all pictures of a batch, and each of {world.size} processes "
            "has a part of them: set it to groups, or train in one process."
        )


def _check_model(config: Config) -> None:
    check_kinds(config.tokenizer)
    _check_sampling(config)
    if config.model.tie == "all" and not config.tokenizer.joint:
        raise ConfigError(
            "model.tie=all shares one embedding, but with tokenizer.joint=false each side has a vocabulary of its own: "
            "set tokenizer.joint=true, or model.tie=output."
        )
    if config.decoding.coverage_penalty and config.model.attention is None:
        raise ConfigError("decoding.coverage_penalty needs attention, and model.attention is none: set it to 0.")
    _check_places(config)
    # On the meta device nothing is computed or stored, so that even a model of any size is checked in a moment.
    with torch.device("meta"):
        build_empty(config.model, source_size=8, target_size=8)


def _check_sampling(config: Config) -> None:
    """Refuse texts that are cut otherwise in each epoch where the usual tokens are needed."""
    sampling = config.tokenizer.sampling
    if sampling and config.training.guided > 0:
        raise ConfigError(
            f"tokenizer.sampling is {sampling} and training.guided is {config.training.guided}, but the links of "
            "alignments are between the usual tokens: set one of them to 0."
        )


def _check_places(config: Config) -> None:
    """Refuse texts that have more places than are learned, before the first of them comes along."""
    model, most = config.model, config.data.max_length + 1
    limits = []
    if model.attention is not None and model.attention.score == "location":
        limits.append(("model.attention.score=location", "model.attention.longest", model.attention.longest))
    if model.positions == "learned":
        limits.append(("model.positions=learned", "model.self_attention.longest", model.self_attention.longest))
    for what, setting, longest in limits:
        if longest < most:
            raise ConfigError(
                f"{what} knows {longest} places, and data.max_length={most - 1} lets in texts that have {most} with "
                f"their end mark: set {setting}={most} or more, or data.max_length={longest - 1} or less."
            )


def _check_losses(config: Config) -> None:
    settings, attention = config.training, config.model.attention
    _check_metric(config)
    if settings.coverage_loss > 0 and (attention is None or attention.coverage == "none"):
        raise ConfigError(
            f"training.coverage_loss is {settings.coverage_loss}, but nothing keeps what earlier looks have seen: set "
            "model.attention.coverage (regard list coverages), or training.coverage_loss=0."
        )
    if settings.r_drop > 0 and config.model.copy:
        raise ConfigError(
            f"training.r_drop is {settings.r_drop}, and compares what two passes say of the whole vocabulary; with "
            "model.copy the loss is made of the target's probability alone: set training.r_drop=0, or model.copy=false."
        )
    if settings.guided > 0 and attention is None:
        raise ConfigError(
            f"training.guided is {settings.guided}, but model.attention is none, so there are no looks to guide: set "
            "it to 0."
        )


def _check_effects(config: Config) -> None:
    """Refuse settings that nothing in this model or its optimizer reads."""
    settings, model, decoder = config.training, config.model, config.model.decoder
    entry = task_of(model).entry
    if (config.data.from_language or config.data.to_language) and entry.name != TRANSLATION:
        raise ConfigError(
            "data.from_language and data.to_language say what a translator reads and writes, and this is "
            f"{entry.what}: leave --from-language and --to-language out."
        )
    for name in task_of(model).unread:
        got, usual = (str(getattr(one, name)).lower() for one in (settings, TrainingConfig()))
        if got != usual:
            raise ConfigError(
                f"training.{name} is {got}, which the loss of model.task={model.task} does not read: set "
                f"training.{name}={usual}, the default."
            )
    recurrent = decoder.kind != TRANSFORMER
    looked_at = decoder.context_dropout if recurrent and model.attention is not None else 0.0
    if settings.r_drop > 0 and not max(model.dropout, looked_at, decoder.output_dropout if recurrent else 0.0) > 0:
        raise ConfigError(
            f"training.r_drop is {settings.r_drop}, but there is no dropout, so that two passes are the same: set "
            "model.dropout, or training.r_drop=0."
        )
    for name, readers in (("weight_decay", ("adamw", "sgd")), ("momentum", ("sgd",))):
        if settings.optimizer not in readers and getattr(settings, name) > 0:
            raise ConfigError(
                f"training.{name} is {getattr(settings, name)}, which training.optimizer={settings.optimizer} does not "
                f"read: take {' or '.join(readers)}, or set training.{name}=0."
            )
    for side, name in (("encoder", "residual"), *(("decoder", name) for name in RECURRENT)):
        ours = getattr(model, side)
        got, usual = (str(getattr(one, name)).lower() for one in (ours, type(ours)()))
        if ours.kind == TRANSFORMER and got != usual:
            instead = "; model.dropout is a transformer's rate" if name.endswith("dropout") else ""
            raise ConfigError(
                f"model.{side}.{name} is {got}, which recurrent {side}s alone read, and model.{side}.kind is "
                f"transformer: set model.{side}.{name}={usual}, the default{instead}."
            )


def _check_metric(config: Config) -> None:
    settings, metrics = config.training, task_of(config.model).metrics
    if settings.metric not in (*metrics, "loss"):
        raise ConfigError(
            f"training.metric={settings.metric} is not what this model's task is scored by: take "
            f"{', '.join(metrics)} or loss."
        )
    if settings.doubly_stochastic > 0 and config.model.attention is None:
        raise ConfigError(
            f"training.doubly_stochastic is {settings.doubly_stochastic}, but model.attention is none, so this model "
            "looks at nothing: set it to 0."
        )


def _check_numbers(config: Config) -> None:
    settings = config.training
    for name in ("told", "asked", "batch_tokens", "accumulate", "epochs", "average_last", "log_every"):
        if getattr(settings, name) < 1:
            raise ConfigError(f"training.{name} is {getattr(settings, name)}; it must be at least 1.")
    for name in ("warmup", "clip", "shift", "steps", "validate_every", "save_every", "patience", "weight_decay"):
        if not getattr(settings, name) >= 0:
            raise ConfigError(f"training.{name} is {getattr(settings, name)}; it must be at least 0.")
    for name in ("minutes", "r_drop", "coverage_loss", "doubly_stochastic", "guided", "reinforce", "entropy"):
        if not 0 <= getattr(settings, name) < math.inf:
            raise ConfigError(f"training.{name} is {getattr(settings, name)}; it must be at least 0 and finite.")
    for name in ("guided_layer", "guided_head"):
        if getattr(settings, name) < -1:
            raise ConfigError(f"training.{name} is {getattr(settings, name)}; it must be at least -1.")
    if not 0 <= settings.teacher_forcing <= 1:
        raise ConfigError(
            f"training.teacher_forcing is {settings.teacher_forcing}; it must be at least 0 and at most 1."
        )
    for name in ("label_smoothing", "ema_decay", "beta2", "momentum"):
        if not 0 <= getattr(settings, name) < 1:
            raise ConfigError(f"training.{name} is {getattr(settings, name)}; it must be at least 0 and below 1.")
    if config.data.max_length < 1:
        raise ConfigError(f"data.max_length is {config.data.max_length}; it must be at least 1.")
    if not 0 < settings.learning_rate < math.inf:
        raise ConfigError(f"training.learning_rate is {settings.learning_rate}; it must be above 0 and finite.")
    if not 0 < settings.plateau_factor <= 1:
        raise ConfigError(f"training.plateau_factor is {settings.plateau_factor}; it must be above 0 and at most 1.")


def device_of(config: Config) -> torch.device:
    """Return the device to train on: of several processes on a machine, each has a GPU of its own."""
    asked = config.training.device
    there = torch.cuda.is_available()
    if asked.startswith("cuda") and not there:
        raise ConfigError("training.device is cuda, but torch finds no CUDA device here: set it to cpu or auto.")
    device = find_device(asked)
    if config.training.precision == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise ConfigError("training.precision is bfloat16, which this CUDA device does not have: set it to float32.")
    return device
