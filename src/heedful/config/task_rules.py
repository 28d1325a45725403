"""The tables of a recipe, and the rules of a task: which tables it allows and what its models are called."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field

from heedful.config.corpora.containers import AnyCorpus
from heedful.config.corpora.roles import Roles
from heedful.config.data import Data
from heedful.config.decode import Decode, Evaluate
from heedful.config.model.any import AnyModel
from heedful.config.model.mixed import PairModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.section import Section
from heedful.config.tokenizer import AnySide, AnyTokenizer, ByteBpe, take_kind_of_start
from heedful.config.train.table import Train

Model = TypeVar("Model", bound=Section)


class Tables(Section):
    """All tables and keys of a recipe."""

    task: str | None = Field(default=None, examples=["translate"])
    """What the model is trained for, such as translate, classify or answer; by default the usual task of its family."""
    data: Data = Field(examples=[{"train": {"source": "train.en", "target": "train.de"}}])
    """Corpora, their form and the size of batches."""
    tokenizer: Annotated[AnyTokenizer, BeforeValidator(take_kind_of_start)] = Field(
        default_factory=ByteBpe, examples=[{"kind": "unigram", "size": 16000}]
    )
    """Kind and size of the vocabularies."""
    model: AnyModel = Field(default_factory=TransformerModel, examples=[{"preset": "base"}])
    """Family and shape of the network."""
    train: Train = Field(default_factory=Train, examples=[{"steps": 20000}])
    """Optimisation, checkpoints and validation."""
    decode: Decode = Field(default_factory=Decode, examples=[{"beam": 5}])
    """Search for translations, and the precision of the trained model."""
    evaluate: Evaluate = Field(default_factory=Evaluate, examples=[{"bleu_tokenize": "13a"}])
    """Computation of scores."""

    @property
    def pair_model(self) -> PairModel:
        """The model table of a network that maps one sequence to another."""
        assert isinstance(self.model, PairModel), f"{self.model.family} does not map sequences"
        return self.model


def model_of(recipe: Tables, kind: type[Model]) -> Model:
    """Return the [model] table of a recipe whose task implies its class."""
    assert isinstance(recipe.model, kind), f"{recipe.model.family} is not a {kind.__name__}"
    return recipe.model


Better = Literal["higher", "lower"]


def _accept(recipe: Tables) -> None:
    """Accept every recipe."""


@dataclass(frozen=True)
class TaskRules:
    """One row of the table of tasks. The other half of a task, which needs torch, is a `tasks.shared.task.Task`."""

    name: str  # the value of the recipe's `task`
    does: str  # "translates": completes "a model that ..."
    verb: str  # the command that uses such a model: `heedful VERB`
    learner: str  # "a translator": the model in messages
    families: tuple[str, ...]  # values of `model.family` that can learn the task
    metrics: Mapping[str, Better]  # values of `train.validation.metric`, and whether higher or lower is better
    roles: tuple[Roles, ...]  # what the rows of its corpora have: one form, or several to choose from
    needs: str  # the roles in words
    vocabularies: tuple[str, ...]  # names of its tokenizers
    model: str = ""  # class of its loaded models in Python: `heedful.MODEL`; none for a task of the caller's program
    inputs: tuple[str, ...] = ()  # roles of what its models answer; `second` only where a model reads pairs
    more_sides: tuple[str, ...] = ()  # what a row of a batch has besides a text of each vocabulary: patches
    only_target: AnySide | None = None  # the only vocabulary that its targets can have
    own_tokenizers: bool = True  # whether tokenizers of the caller's program can be used
    network_parts: tuple[str, ...] = ()  # attributes that a network of the caller's program must have
    whole_texts: bool = False  # whether its batches are whole texts, which BPE-dropout can cut anew
    running: bool = False  # whether it reads running text in windows, line breaks included
    scored: Literal["texts", "pairs"] | None = None  # what its models score and are compared by; None: neither
    compared_by: tuple[str, ...] = ()  # metrics of comparisons, besides those of pairs; the first two are the default
    scores: tuple[str, ...] = ()  # names of the scores of an evaluation, the main one first
    labels: bool = False  # whether its models have named classes
    images: bool = False  # whether it reads images, at which checks of texts do not look
    words: bool = False  # whether every word of a text has a label of its own
    searches: bool = False  # whether its models generate by a search, with the settings of [decode]
    start_keys: tuple[str, ...] = ()  # keys of [data] that a recipe takes from its start, besides the text's form
    own_keys: tuple[str, ...] = ()  # keys of a recipe that apply to this task, and are refused for others
    unread_keys: tuple[str, ...] = ()  # keys that apply to this task too, and that other tasks accept but do not read
    line: str = ""  # the line to beat, in words
    tokens: str = "tokens"  # name of the tokens that training speed counts
    label_smoothing: float = 0.0  # default of `train.label_smoothing`
    # Puts the task's head on the encoder of a start model of another family; None if the families must be the same.
    on_encoder_of: Callable[[AnyModel, AnyModel], AnyModel] | None = None
    other_starts: tuple[str, ...] = ("bert",)  # values of `model.family` of those starts
    # Below this number of training rows, or of bytes of running text, a start that has read more is better: see
    # docs/measured/results.md, where 500 reviews gain from it, and 2,000 do not need it. 0 is never.
    few: int = 0
    # For pages that explain a model: their title, and the names of what it read and of what it found ("" hides this).
    explained: str = "What a model attended to"
    explained_as: tuple[str, str] = ("Text", "Result")
    # For evaluation:
    test_files: str | None = None  # content of --source and --target, as a way out; None where they are not accepted
    evaluation_options: tuple[str, ...] = ()  # options of its own, besides those of a search
    outputs: bool = True  # whether a model has an output for each text that can be written to a file
    same_vocabulary: bool = False  # whether scores can be averaged only over models with the same vocabularies
    same_keys: tuple[str, ...] = ()  # keys that recipes must have in common for their scores to be averaged
    check: Callable[[Tables], None] = _accept  # raises a ValueError for tables that do not fit together
    own_metrics: tuple[str, ...] = ()  # those of `metrics` that are functions of the caller's program

    def with_metrics(self, metrics: Mapping[str, Better]) -> "TaskRules":
        """Return the rules with metrics of the caller's program besides those of the task."""
        own = tuple(dict.fromkeys((*self.own_metrics, *metrics)))
        return replace(self, metrics={**self.metrics, **metrics}, own_metrics=own) if metrics else self

    def takes(self, corpus: AnyCorpus) -> bool:
        """Whether the task can learn from a corpus."""
        return any(form.fit(corpus.roles) for form in self.roles)

    @property
    def sides(self) -> tuple[str, ...]:
        """Names of the parts of a row, each within `data.batch_tokens`."""
        return self.vocabularies + self.more_sides

    @property
    def all_own_keys(self) -> tuple[str, ...]:
        """Keys of a recipe that apply to this task, and not to every task."""
        return self.own_keys + self.unread_keys
