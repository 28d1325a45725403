"""Parts of a model that the caller's program passes: a function that builds its network, and its tokenizers.

They are handed to whatever builds or reads a model inside a block. A bundle records that it has such parts, never how
to import them: who loads it passes them again.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Final

from torch import nn

from heedful.base.errors import UserError
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.tokenize.own_tokenizer import AnyOwnTokenizer, OwnTokenizer, check_own_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.from_recipe.network import build_network

NetworkBuilder = Callable[[Recipe, Vocabularies], nn.Module]
GivenTokenizer = AnyOwnTokenizer | Mapping[str, AnyOwnTokenizer]


@dataclass(frozen=True)
class OwnParts:
    """What the caller's program passes for a model; None is what the recipe says."""

    network: NetworkBuilder | None = None
    tokenizer: GivenTokenizer | None = None  # one for all vocabularies, or one for each by name

    @classmethod
    def of(cls, network: object, tokenizer: object) -> "OwnParts":
        """Check what a caller passes."""
        if network is not None and (isinstance(network, nn.Module) or not callable(network)):
            raise UserError(
                f"`network` is {shortened(network)}, but must be a function of a recipe and its vocabularies that "
                "returns a module."
            )
        if isinstance(tokenizer, Mapping):
            named = {name: check_own_tokenizer(own, f'tokenizer["{name}"]') for name, own in tokenizer.items()}
            return cls(network, named)
        return cls(network, None if tokenizer is None else check_own_tokenizer(tokenizer, "tokenizer"))

    @property
    def network_name(self) -> str | None:
        """Name of the function that builds the network, for messages."""
        return None if self.network is None else getattr(self.network, "__qualname__", type(self.network).__qualname__)

    def tokenizers(self, rules: TaskRules) -> dict[str, AnyOwnTokenizer]:
        """Return the tokenizers by the names of a task's vocabularies; none if the recipe's are used."""
        given, names = self.tokenizer, rules.vocabularies
        if given is None:
            return {}
        if not rules.own_tokenizers:
            raise UserError(f"`tokenizer` does not apply to {rules.learner}: leave it out.")
        if not isinstance(given, Mapping):
            return dict.fromkeys(names, given)
        if set(given) != set(names):
            wanted = ", ".join(f'"{name}"' for name in names)
            raise UserError(f"`tokenizer` has the names {shortened(list(given))}, but must have {wanted}.")
        return {name: given[name] for name in names}

    def vocabularies(self, recipe: Recipe) -> Vocabularies | None:
        """Return the vocabularies of a new model; None if Heedful trains them."""
        given = self.tokenizers(recipe.rules)
        if not given:
            return None
        languages = sorted({corpus.to for corpus in recipe.data.train if corpus.to})
        if len(given) == 1 or recipe.tokenizer.joint:
            if len({id(tokenizer) for tokenizer in given.values()}) > 1:
                raise UserError(
                    "`tokenizer` has one for each side, but the recipe's `tokenizer.joint` is true: set it to false, "
                    "or pass one for both."
                )
            return Vocabularies(dict.fromkeys(given, OwnTokenizer(next(iter(given.values())), languages)))
        tags = {"target": ()}
        return Vocabularies({name: OwnTokenizer(own, tags.get(name, languages)) for name, own in given.items()})


_NONE: Final = OwnParts()
_HANDED_OVER: Final = ContextVar("own parts", default=_NONE)


@contextmanager
def hand_over(parts: OwnParts) -> Iterator[None]:
    """Let what is built and read inside the block have these parts."""
    before = _HANDED_OVER.set(parts)
    try:
        yield
    finally:
        _HANDED_OVER.reset(before)


def handed_over() -> OwnParts:
    """Return the parts of the block."""
    return _HANDED_OVER.get()


def build_own_or_usual(recipe: Recipe, vocabularies: Vocabularies) -> nn.Module:
    """Build the network of a recipe by the caller's function, or if there is none, as the recipe says."""
    build = handed_over().network
    if build is None:
        return build_network(recipe.model, vocabularies)
    network = build(recipe, vocabularies)
    if not isinstance(network, nn.Module) or next(network.parameters(), None) is None:
        raise UserError(f"`network` returned {shortened(network)}, but must return a module with parameters.")
    lacking = next((part for part in recipe.rules.network_parts if not hasattr(network, part)), None)
    if lacking is not None:
        needed = ", ".join(f"`{part}`" for part in recipe.rules.network_parts)
        raise UserError(
            f"`network` returned a {type(network).__name__} without `{lacking}`, but {recipe.rules.learner} needs "
            f"{needed}, as those of `build_network` have."
        )
    stored = network.state_dict()
    buffer = next((name for name, _ in network.named_buffers() if name in stored), None)
    if buffer is not None:
        raise UserError(
            f"`network` returned a module with the buffer `{buffer}`, but only parameters are saved: register it with "
            "`persistent=False`, or make it a parameter."
        )
    return network
