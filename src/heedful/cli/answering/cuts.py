"""Texts that are longer than a model reads: counted while they are answered, and told once."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from heedful.cli import messages
from heedful.config.recipe import Recipe
from heedful.tasks.shared.answering.answers import Answers

Found = TypeVar("Found")
_PLACES = {"end": "at the end", "start": "at the start", "middle": "in the middle"}


@dataclass
class Cuts:
    """How many texts a model was given, and how many of them were cut."""

    texts: int = 0
    cut: int = 0

    def counted(self, stream: Callable[..., Iterable[Found]]) -> Callable[..., Iterator[Found]]:
        """Return a stream of answers, which know whether their text was cut, that counts them."""

        def answers(*given: Any, **options: Any) -> Iterator[Found]:
            for found in stream(*given, **options):
                self.texts, self.cut = self.texts + 1, self.cut + getattr(found, "cut", False)
                yield found

        return answers

    def counting(self, answers: Answers[Found]) -> Answers[Found]:
        """Return how a model answers, counted."""
        return replace(answers, stream=self.counted(answers.stream))

    def add(self, texts: int) -> None:
        """Count texts that were cut."""
        self.cut += texts

    def tell(self, recipe: Recipe) -> None:
        """Warn if texts were cut."""
        if self.cut:
            data, unit = recipe.data, "words" if getattr(recipe.model, "nested", False) else "tokens"
            messages.warn(
                f"{self.cut:,} of {self.texts:,} texts were longer than the model reads ({data.max_length:,} {unit}), "
                f"and were cut {_PLACES[data.cut]}: `data.max_length` of the recipe decides that."
            )
