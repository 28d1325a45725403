"""What a language model made of a prompt, and the options of a call that generates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Final, Literal, Self, TypedDict

from heedful.base.arguments import check_text, check_texts
from heedful.base.errors import UserError, option
from heedful.base.options import Option, options_of
from heedful.config.decode import Sampling

Ended = Literal["end", "stop", "length"]
OF_SAMPLING: Final = ("top_k", "top_p", "min_p")  # options that nothing but sampling reads


@dataclass(frozen=True)
class Generation:
    """One continuation of a prompt."""

    text: str  # what follows the prompt, without the stop string
    tokens: tuple[int, ...]  # tokens of the text; the last one may reach into a stop string
    pieces: tuple[str, ...]  # the same tokens in readable form (see `Tokenizer.pieces`)
    log_probabilities: tuple[
        float, ...
    ]  # log probability that the model gives to each token, before any sampling option
    ended: Ended  # why it ended: the model ended the text, a stop string occurred, or it has the maximum length
    slid: bool = False  # whether the window slid, so that the model no longer saw the start of the text
    prompt: str = ""  # the text that is continued

    @property
    def log_probability(self) -> float:
        """Log probability of all tokens."""
        return sum(self.log_probabilities)


class GeneratedText(str):
    """What follows a prompt, as a text; `details` has the prompt, the tokens and why the text ended."""

    def __new__(cls, text: str, finish: Callable[[], Generation]) -> Self:
        """Return a text, and how to find what is known of it."""
        made = super().__new__(cls, text)
        made._finish = finish
        return made

    _finish: Callable[[], Generation]

    @cached_property
    def details(self) -> Generation:
        """All that `heedful generate --json` writes; log probabilities are computed when it is first asked for."""
        return self._finish()


def _of_sampling(name: str) -> Option:
    return options_of(Sampling)[name]


def _check_stop(name: str, value: object) -> tuple[str, ...]:
    found = (check_text(value, f"`{name}`"),) if isinstance(value, str) else tuple(check_texts(value, name))
    if "" in found:
        raise UserError(f"{option(name)} has an empty string, before which every text would end at once: leave it out.")
    return found


class GenerateOptions(TypedDict, total=False):
    """Options of `generate`; None is the default."""

    max_tokens: Annotated[int | None, Option("Maximum number of new tokens.", 200, least=1)]
    temperature: Annotated[
        float | None,
        Option(
            "Below 1 favours likely tokens, above 1 unlikely ones; 0 is greedy search.",
            0.8,
            least=0,
            must_be="0 (greedy search) or more",
        ),
    ]
    top_k: Annotated[int | None, _of_sampling("top_k")]
    top_p: Annotated[float | None, _of_sampling("top_p")]
    min_p: Annotated[float | None, _of_sampling("min_p")]
    repetition_penalty: Annotated[
        float | None,
        Option(
            "Makes tokens that occurred before less likely; 1.2 is usual, 1 is none.",
            1.0,
            least=1,
            must_be="1 (no penalty) or more",
        ),
    ]
    stop: Annotated[str | Sequence[str] | None, Option("Strings before which a text ends.", reader=_check_stop)]
    beam: Annotated[
        int | None, Option("Beam size; searches for the most likely text, instead of sampling.", least=1, most=10_000)
    ]
    samples: Annotated[int | None, Option("Number of texts per prompt; with a beam the best ones.", 1, least=1)]
    seed: Annotated[int | None, _of_sampling("seed")]
    slide: Annotated[
        bool | None, Option("Whether the window slides when a text fills it, instead of ending the text.", True)
    ]
    batch_tokens: Annotated[
        int | None,
        Option("Budget of a batch: tokens of prompts and texts; by default `data.batch_tokens`.", least=1),
    ]
