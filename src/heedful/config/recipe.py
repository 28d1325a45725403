"""A recipe: one model, from its data to its scores.

Every key that a recipe may hold is declared in the files of this folder, one file per table, with its default and
bounds. Where a table has a `kind` or a `family`, each value has its own class, so that a key that does not apply to it
is an error.
"""

from dataclasses import dataclass
from typing import Self

from pydantic import PrivateAttr, ValidationInfo, model_validator

from heedful.config.checks import check_recipe
from heedful.config.task_rules import Tables, TaskRules
from heedful.config.tasks import find_rules, from_outside
from heedful.config.tokenizer import AnyTokenizer, with_only_target


@dataclass(frozen=True)
class FollowedDefaults:
    """The keys of a recipe that follow its run, and the size of its corpus in words."""

    keys: tuple[str, ...]
    corpus: str

    def to_json(self) -> dict[str, object]:
        """Return them for a bundle's config."""
        return {"for": self.corpus, "keys": list(self.keys)}


class Recipe(Tables):
    """Tables that fit together, and the rules of their task."""

    _given: TaskRules | None = PrivateAttr(default=None)  # rules of a task that is not in the table of tasks

    _followed: FollowedDefaults | None = PrivateAttr(default=None)  # defaults that were resolved from its run

    _held_out: str | None = PrivateAttr(default=None)  # validation data that was taken from the training corpora

    @property
    def followed(self) -> FollowedDefaults | None:
        """The keys that follow the run, where they were resolved."""
        return self._followed

    def follow(self, followed: FollowedDefaults) -> None:
        """Record which keys follow the run."""
        self._followed = followed

    @property
    def held_out(self) -> str | None:
        """What was held out as validation data, in words, where the recipe itself names none."""
        return self._held_out

    def hold_out(self, words: str | None) -> None:
        """Record what was held out."""
        self._held_out = words

    @property
    def rules(self) -> TaskRules:
        """Rules of the task that the model is trained for."""
        return find_rules(self.task, self.model.family, self._given)

    @property
    def given_rules(self) -> TaskRules | None:
        """Rules of a task from outside Heedful; None if the recipe was read without them."""
        return self._given

    @property
    def label_smoothing(self) -> float:
        """Label smoothing of the recipe, by default that of its task."""
        said = self.train.label_smoothing
        return self.rules.label_smoothing if said is None else said

    def with_tokenizer(self, tokenizer: AnyTokenizer) -> "Recipe":
        """Return the recipe with another [tokenizer] table, that of a model whose vocabulary it has."""
        made = self.model_copy(update={"tokenizer": tokenizer.model_copy(update={"extend": None})})
        made._follow_vocabularies()
        check_recipe(made, made.rules)
        return made

    @model_validator(mode="after")
    def _fit_together(self, info: ValidationInfo) -> Self:
        if info.context is not None:
            self._given = from_outside(info.context["rules"])
        self._follow_vocabularies()
        check_recipe(self, self.rules)
        return self

    def _follow_vocabularies(self) -> None:
        """Add the only target vocabulary that a task can have, and tie what vocabularies allow.

        Of a Transformer with separate vocabularies that does not set `tie`, only the decoder's matrices are tied.
        """
        self.__dict__["tokenizer"] = with_only_target(self.tokenizer, self.rules.only_target)
        model = self.model
        if model.family == "transformer" and "tie" not in model.model_fields_set and not self.tokenizer.joint:
            self.__dict__["model"] = model.model_copy(update={"tie": "decoder"})
