"""The options of a call that translates, and how they are resolved against the recipe's [decode]."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from heedful.base.arguments import check_whole
from heedful.base.errors import UserError, by_caller, option
from heedful.base.options import complete
from heedful.config.decode import Decode, Sampling, SearchOptions
from heedful.decode.hypothesis import LengthPenalty, Shifted, Wu
from heedful.decode.settings import SearchSettings
from heedful.tasks.shared.sequences.minimum_bayes_risk import Found, MinimumBayesRisk
from heedful.tasks.shared.sequences.text_codec import Languages


@dataclass(frozen=True)
class SearchRequest:
    """The options of a call, resolved."""

    to: Languages
    raw: bool
    prefix: str | Sequence[str] | None
    settings: SearchSettings
    batch_tokens: int
    max_source: int
    terms: Mapping[str, str]  # empty where there are none
    require: list[str] | list[list[str]]  # for all texts, or for each
    forbid: list[str]
    shortlist: bool = False  # whether a source's translation has only tokens of a shortlist
    risk: MinimumBayesRisk | None = None  # how one of several samples is chosen; None where all results are returned

    def refuse_lists(self) -> None:
        """Refuse options that have something for each of several texts, where their number is not known."""
        if any(not (many is None or isinstance(many, str)) for many in (self.to, self.prefix, *self.require)):
            raise TypeError(
                "a stream has one target language, one prefix and one list of words: use `translate` for lists of them"
            )

    def choose(self, found: Iterable[list[Found]]) -> Iterator[list[Found]]:
        """Yield the results of each source that were asked for."""
        return iter(found) if self.risk is None else map(self.risk.choose, found)

    @property
    def memory_advice(self) -> str:
        """What to do if the memory is full while such a request is answered."""
        beam, tokens = self.settings.beam, self.batch_tokens
        which = by_caller(f"--batch-tokens {tokens} and --beam {beam}", f"`batch_tokens={tokens}` and `beam={beam}`")
        return f"{which} are too much for this model: lower one of them"


PENALTIES: Final[Mapping[str, Callable[[float, float], LengthPenalty]]] = {
    "wu": lambda alpha, shift: Wu(alpha),
    "shifted": Shifted,
}


def resolve(
    options: Mapping[str, Any], decode: Decode, nbest: int = 1, never: Iterable[int] = (), table: type = SearchOptions
) -> SearchRequest:
    """Complete options of a table from the recipe; `never` are tokens that no translation may contain."""
    chosen = {**complete({}, SearchOptions), **complete(options, table, decode.model_dump())}
    nbest = check_whole("nbest", nbest)
    risk = _minimum_bayes_risk(chosen, options, nbest)
    if chosen["sampling"] is not None and options.get("beam") is None:
        chosen["beam"] = 1  # the recipe's beam is for searching
    kind = chosen["length_penalty_kind"]
    if options.get("length_shift") is not None and kind != "shifted":
        way_out = by_caller("--length-penalty-kind shifted", '`length_penalty_kind="shifted"`')
        raise UserError(
            f"{option('length_shift')} applies to the shifted length penalty, but the kind is {kind}: add {way_out}."
        )
    settings = SearchSettings(
        chosen["beam"],
        1 if risk else nbest,  # all samples are needed to choose among them
        chosen["max_extra"],
        PENALTIES[kind](chosen["length_penalty"], chosen["length_shift"]),
        never=tuple(never),
        **{name: chosen[name] for name in ("coverage", "no_repeat", "min_length", "sampling", "aligned")},
    )
    return SearchRequest(
        settings=settings,
        terms=chosen["terms"] or {},
        require=chosen["require"] or [],
        forbid=chosen["forbid"] or [],
        risk=risk,
        **{name: chosen[name] for name in ("to", "raw", "prefix", "shortlist", "batch_tokens", "max_source")},
    )


def _minimum_bayes_risk(chosen: dict[str, Any], options: Mapping[str, Any], nbest: int) -> MinimumBayesRisk | None:
    """Return how to choose among samples, and put the way to draw them into the chosen options; None to search.

    A call that sets a beam or samples itself does not use the recipe's `mbr`.
    """
    asked = options.get("mbr") is not None
    if asked and chosen["mbr"] and options.get("sampling") is not None:
        raise UserError(
            f"{option('mbr')} draws samples of its own, but sampling is set too: leave one of them out; "
            f"{option('mbr_temperature')}, {option('mbr_min_p')} and {option('mbr_seed')} change how they are drawn."
        )
    if asked and chosen["mbr"] and (options.get("beam") or 1) > 1:
        raise UserError(
            f"{option('mbr')} draws samples, but {option('beam')} is {options['beam']}, which searches: leave one of "
            "them out."
        )
    if not chosen["mbr"] or (not asked and (options.get("sampling") or options.get("beam")) is not None):
        return None
    if nbest > chosen["mbr"]:
        raise UserError(
            f"{option('nbest')} is {nbest}, but {option('mbr')} draws no more than {chosen['mbr']} samples: "
            f"set {option('mbr')} to {nbest} or more."
        )
    chosen["sampling"] = Sampling(
        chosen["mbr_temperature"], samples=chosen["mbr"], seed=chosen["mbr_seed"], min_p=chosen["mbr_min_p"]
    )
    return MinimumBayesRisk(chosen["mbr_utility"], nbest)


def refuse_nbest(options: SearchOptions, method: str) -> None:
    """Refuse `nbest` in a call that returns the best translation alone."""
    if "nbest" in options:
        raise UserError(f"`{method}` returns the best translation alone: `nbest` is for `{method}_detailed`.")
