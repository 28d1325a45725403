"""What a loaded model offers to other programs: jobs for requests, and steps that move them.

job = service.job(inputs, options)     nothing has begun; impossible options are refused
service.tick()                         one step of all that its jobs asked for
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar, Final, cast

from heedful.base.options import Option, options_of
from heedful.explain.explanation import Explanation
from heedful.tasks.shared.answering.answers import Answers
from heedful.tasks.shared.answering.jobs import Job, PassJob
from heedful.tasks.shared.answering.streaming import Batcher
from heedful.tasks.shared.embeddings import Embeds
from heedful.tasks.shared.loaded_model import LoadedModel

Input = Mapping[str, Any]  # values by role: texts, images
DETAILED: Final = "detailed"  # a role: whether the words of one input are described, whatever the options say
BUDGET: Final = 4096  # tokens of inputs that are answered together, about; one input at least
_KEPT: Final = 16  # batchers of one model: requests with equal options are answered together


def offered(table: type, *left_out: str) -> dict[str, Option]:
    """Return the options of a table that requests have too."""
    return {name: each for name, each in options_of(table).items() if name not in left_out}


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a request has: None is the default."""
    return {name: value for name, value in options.items() if value is not None}


class Service(ABC):
    """A loaded model that answers requests. One thread calls its methods but `explain`."""

    options: ClassVar[Mapping[str, Option]] = {}  # of a request, besides its inputs
    streams: ClassVar[bool] = False  # whether results can be watched while they grow

    def __init__(self, model: LoadedModel[Any]) -> None:
        self.model = model
        self._batchers: dict[object, Batcher[Any, Any]] = {}
        for network in model._all_networks():
            network.eval()

    @property
    def roles(self) -> tuple[str, ...]:
        """Fields of an input."""
        return ("text",)

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that the model can be asked to write; none if there is no choice."""
        return ()

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return all(batcher.idle for batcher in self._batchers.values())

    @abstractmethod
    def job(self, inputs: Sequence[Input], options: Mapping[str, Any], *, watched: bool = False) -> Job:
        """Return the job of a request; `watched` says that its changes will be asked for."""

    def tick(self) -> None:
        """Take one step of what is under way: one batch of each kind."""
        for key, batcher in list(self._batchers.items()):
            if not batcher.idle:
                batcher.tick()
            elif len(self._batchers) > _KEPT:
                del self._batchers[key]

    # --- what models of several tasks offer ---

    @property
    def embeds(self) -> bool:
        """Whether the model writes texts as vectors."""
        return isinstance(self.model, Embeds)

    def embedding_job(self, texts: Sequence[str], options: Mapping[str, Any]) -> Job:
        """Return the job of a request for vectors; `found` has them."""
        given, model = given_options(options), cast(Any, self.model)
        batcher = self._batcher(
            ("embed", *sorted(given.items())),
            lambda part, first: list(model.embed(part, name="input", first=first, **given)),
        )
        return PassJob(batcher, texts, lambda vector: {"vector": vector.tolist()})

    @property
    def explains(self) -> bool:
        """Whether the model's answers are explained."""
        return hasattr(self.model, "explain")

    def explain(self, given: Input, options: Mapping[str, Any]) -> Explanation:
        """Explain the answer to an input; it runs beside the engine, in a thread of its own."""
        model: Any = self.model
        takes = signature(model.explain).parameters
        chosen = {name: value for name, value in given_options(options).items() if name in takes}
        found: Explanation = model.explain(**given, **chosen)
        return found

    def _batcher(self, key: object, answer: Callable[[Sequence[Any], int], Iterable[Any]]) -> Batcher[Any, Any]:
        """Return what answers inputs together whose requests have the same options."""
        if key not in self._batchers:
            self._batchers[key] = Batcher(lambda part, first: list(answer(part, first)), BUDGET, _cost)
        return self._batchers[key]


def _cost(item: Any) -> int:
    """Return about how many tokens an input has."""
    return max(1, len(item) // 4) if isinstance(item, str) else 64


class PassService(Service):
    """A model that answers with one forward pass, as the command line has it answer (`Answers`)."""

    @abstractmethod
    def answers(self, options: Mapping[str, Any]) -> Answers[Any]:
        """Return how the model answers with some options."""

    @property
    def roles(self) -> tuple[str, ...]:
        """See `Service.roles`."""
        roles = self.answers({}).roles
        return roles if getattr(self.model, "paired", True) else tuple(role for role in roles if role != "second")

    def job(self, inputs: Sequence[Input], options: Mapping[str, Any], *, watched: bool = False) -> Job:
        """See `Service.job`."""
        chosen = _completed(options, self.options)
        answers = self.answers(chosen)
        items = [answers.read(values, f"input {number}") for number, values in enumerate(inputs, start=1)]

        def answer(part: Sequence[Any], first: int) -> Iterable[Any]:
            return answers.stream(part, **({"name": "input"} if "name" in answers.takes else {}))

        batcher = self._batcher(tuple(sorted(chosen.items())), answer)
        return PassJob(batcher, items, lambda found: dict(answers.fields(found)))


def _completed(given: Mapping[str, Any], declared: Mapping[str, Option]) -> dict[str, Any]:
    """Return all options: those of a request, which are checked, and the defaults."""
    checked = {name: declared[name].check(name, value) for name, value in given_options(given).items()}
    return {name: each.default for name, each in declared.items()} | checked
