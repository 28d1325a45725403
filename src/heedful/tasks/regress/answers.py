"""How regressors answer: numbers, as JSON, as columns and as lines."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from heedful.base.columns import in_digits, one_column
from heedful.tasks.shared.answering.answers import Answers, Given, read_image, read_text


@dataclass(frozen=True)
class Number:
    """A predicted number, and whether its text was cut."""

    value: float | None
    cut: bool = False


def numbers(stream: Callable[..., Iterable[float | None]]) -> Callable[..., Iterator[Number]]:
    """Return a stream of numbers, each with whether its text was cut."""

    def answers(*given: Any, **options: Any) -> Iterator[Number]:
        cuts = deque[bool]()
        for number in stream(*given, tell_cut=cuts.append, **options):
            yield Number(number, cuts.popleft())

    return answers


def answers_of(regressor: Any) -> Answers[Number]:
    """Return how a regressor of texts or images answers."""

    def line(number: Number, given: Given) -> str:
        image = given.values.get("image")
        before = "" if image is None else f"{one_column(str(image))}\t"
        return "" if number.value is None else f"{before}{in_digits(number.value, 6)}"

    def fields(number: Number) -> dict[str, Any]:
        return {"number": number.value, **({"cut": True} if number.cut else {})}

    if regressor.recipe.rules.images:

        def stream(*given: Any, **options: Any) -> Iterator[Number]:
            return map(Number, regressor.stream_images(*given, **options))

        return Answers(("image",), read_image, stream, fields, ("number",), line, takes=("refused",))
    return Answers(("text", "second"), read_text, numbers(regressor.stream_texts), fields, ("number",), line)
