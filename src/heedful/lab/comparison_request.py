"""What is compared, and how: two sides of models and translations, and the sentences that they are compared on.

Checks what a caller asks for before any long work starts; torch is needed only where there are models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from heedful.base.errors import UserError, by_caller, counted, option
from heedful.base.notes import ShowProgress, show_nothing
from heedful.config.corpora.containers import AlignedFiles
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.lab.compare import DEFAULT_METRICS, Comparison, Frequencies, System, check_lines, compare
from heedful.metrics.edits import Reference
from heedful.metrics.significance import SAMPLES, SEED
from heedful.metrics.summed_metrics import TextScoring, metric_names

Part = Literal["valid", "test"]


@dataclass(frozen=True)
class Sentences:
    """A test set: sources and references. Without sources, only existing translations can be compared."""

    name: str
    sources: tuple[str, ...] | None
    references: tuple[Reference, ...]
    to: str = ""  # target language, for multilingual models

    def read(self) -> "Sentences":
        """Return the sentences, which are in memory already."""
        return self


@dataclass(frozen=True)
class SentenceFiles:
    """Files with a test set, read when they are needed: some tasks read them as a corpus of their own."""

    sources: str | None
    references: Sequence[str]  # several files have several references of each sentence
    to: str = ""

    def read(self) -> Sentences:
        """Read the sentences."""
        names = [*([] if self.sources is None else [self.sources]), *self.references]
        files = {name: file_lines(name) for name in names}
        (first, lines), *others = files.items()
        for name, here in others:
            if len(here) != len(lines):
                raise UserError(
                    f"{first} has {counted(len(lines), 'line')} but {name} has {len(here):,}: line n of one belongs "
                    "to line n of the other."
                )
        several = tuple(zip(*(files[name] for name in self.references), strict=True))
        references = several if len(self.references) > 1 else files[self.references[0]]
        return Sentences(" + ".join(files), None if self.sources is None else files[self.sources], references, self.to)

    def corpus(self) -> AlignedFiles:
        """Return the files as a corpus."""
        first, *others = (str(Path(name).absolute()) for name in self.references)
        assert self.sources is not None
        return AlignedFiles(
            source=str(Path(self.sources).absolute()), target=first, references=tuple(others), to=self.to
        )


@dataclass(frozen=True)
class ComparisonRequest:
    """What a caller asks for. A run of a side has translations, or is the folder of a model."""

    a: Mapping[str, System | None]  # by name; None for a model
    b: Mapping[str, System | None]
    given: Sentences | SentenceFiles | None = None  # instead of a test set of the recipes
    metrics: Sequence[str] | None = None  # None: those that are usual for the task
    split: Part | None = None  # of the recipes; None: test
    corpus: str | None = None  # name or number of a corpus in it; None: the first
    bleu_tokenize: str | None = None  # None: that of the recipes
    samples: int = SAMPLES
    seed: int = SEED
    examples: int = 5
    device: str = "auto"
    precision: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)  # of the search
    say: Callable[[str], None] = lambda message: None
    show: ShowProgress = show_nothing

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        _, references = names_of_sentences()
        if self.given is None and not self.models:
            raise UserError(f"{references} is missing: translations without a model are compared with references.")
        for name, value in (("split", self.split), ("corpus", self.corpus)):
            if self.given is not None and value is not None:
                raise UserError(
                    f"{option(name)} chooses among the corpora of the recipes: leave it out with {references}."
                )
        of_models = [*self.options, *(["to"] if self.given and self.given.to else [])]
        if of_models and not self.models:
            raise UserError(f"{option(of_models[0])} is for models, but A and B are translations: leave it out.")

    @property
    def models(self) -> list[str]:
        """Folders of the models of both sides."""
        return [name for name, run in {**self.a, **self.b}.items() if run is None]

    @property
    def systems(self) -> list[System]:
        """Translations that exist already, of both sides."""
        return [run for run in {**self.a, **self.b}.values() if run is not None]

    def check_sources(self) -> None:
        """Refuse references without sentences, which models need."""
        if self.given is not None and self.given.sources is None:
            sources, _ = names_of_sentences()
            raise UserError(f"{sources} is missing: {self.models[0]} is a model, which needs sentences to translate.")

    def text_metrics(self) -> Sequence[str]:
        """Return the metrics of translations; refuse others."""
        return metric_names(DEFAULT_METRICS if self.metrics is None else self.metrics)

    def compare_translations(self) -> tuple[Comparison, str]:
        """Compare translations without a model; also return the name of the test set."""
        assert self.given is not None
        self.text_metrics()  # before files are read
        sentences = self.given.read()
        check_lines(self.systems, sentences.references)
        systems = {system.name: system for system in self.systems}
        return Translated(systems, sentences, TextScoring(self.bleu_tokenize or "13a")).compare(self)


@dataclass(frozen=True)
class Translated:
    """Translations of a test set by all systems, and how to score them."""

    systems: Mapping[str, System]  # by name
    sentences: Sentences  # with references in the form used for scoring
    scoring: TextScoring
    frequencies: Frequencies | None = None  # in the training data, if it can be read

    def compare(self, request: ComparisonRequest) -> tuple[Comparison, str]:
        """Compare two sides; also return the name of the test set."""
        found = compare(
            [self.systems[name] for name in request.a],
            [self.systems[name] for name in request.b],
            self.sentences.references,
            self.sentences.sources,
            metrics=request.text_metrics(),
            **self.scoring._asdict(),
            frequencies=self.frequencies,
            samples=request.samples,
            seed=request.seed,
            examples=request.examples,
        )
        return found, self.sentences.name


def names_of_sentences() -> tuple[str, str]:
    """Return how the caller spells sources and references."""
    return by_caller("--source", "`sources`"), by_caller("--target", "`references`")


def refuse_without_references(sources: object, to: object) -> None:
    """Refuse what goes with references, where there are none."""
    of_sources, references = names_of_sentences()
    if sources is not None:
        raise UserError(f"{references} is missing: sentences need references.")
    if to is not None:
        raise UserError(
            f"{option('to')} is for {of_sources} and {references}: the corpora of the recipes have their own `to`."
        )


def read_run(name: str) -> System | None:
    """Return the translations in a file, or None for the folder of a model."""
    path = locate(name).path
    if not path.exists():
        raise UserError(f"{name} is neither the folder of a model nor a file of translations: nothing has that name.")
    return None if path.is_dir() else System(name, file_lines(name))


def file_lines(name: str) -> tuple[str, ...]:
    """Return the lines of a file."""
    return tuple(read_lines(replace(locate(name), hint="", stream=True)))  # the hint is about recipes
