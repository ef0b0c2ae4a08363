"""Language modelling: a translator without a source. It continues texts, and is scored by its perplexity alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.config import Config
from regard.errors import ConfigError
from regard.task_table import BY_NAME
from regard.tasks.translation.task import Translation


class LanguageModelling(Translation):
    """From the tokens before to the next one."""

    entry = BY_NAME["language_modelling"]
    scoring_options = frozenset(("--with", "--set", "--to"))
    attend_options = frozenset()
    served_as = "continue"
    does = "continues texts"

    def check(self, config: Config) -> None:
        """Refuse scores of translations, too."""
        super().check(config)
        metric = config.training.metric
        if metric in self.metrics:
            raise ConfigError(
                f"training.metric={metric} scores translations, and a language model (model.encoder.kind=none) "
                "makes none: set training.metric=loss."
            )

    def about(self, reader: Any, config: Config) -> Mapping[str, Any]:
        """Tell the tags."""
        return {"tags": list(reader.tokenizers.tags)}

    def routes(self, models: Sequence[Any], queue: Any, limits: Any, uploads: Any) -> Any:
        """Be served by the routes of translators."""
        return None

    def attend(self, folder: Path, asked: Any) -> None:
        """Show where a language model looks back."""
        from regard.tasks.language_modelling.attend import attend

        attend(folder, asked)


TASK = LanguageModelling()
