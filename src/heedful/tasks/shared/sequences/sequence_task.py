"""What tasks have in common whose models write sequences: batches, validation; data and objective of pairs of them."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch

from heedful.base.errors import UserError
from heedful.config.recipe import Recipe
from heedful.data.batches.pairs import PairCollator, pair_costs
from heedful.data.collate import CPU_MULTIPLE, StaticShape
from heedful.data.epochs.loader import Collator, RowFeed
from heedful.data.epochs.plan import batches_by_length, spread
from heedful.data.prepare.pairs import prepare
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.language.perplexity import Likelihood, likelihood
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.models.protocols import source_limit
from heedful.tasks.shared.line import Line
from heedful.tasks.shared.sequences.text_evaluation import validation_names
from heedful.tasks.shared.sequences.token_scores import LONGEST_SCORED
from heedful.tasks.shared.static_shapes import static_layout
from heedful.tasks.shared.task import Task, Validator
from heedful.tasks.shared.validation import Asked, Sample, Validated, refuse_diverged
from heedful.training.objectives import NextToken


class SearchingTask(Task):
    """Learns the next token of what it writes; a search finds the whole."""

    written: ClassVar[str] = "target"  # name of the stream of what it writes
    shortest: ClassVar[int | None] = None  # tokens of rows of which a batch is full: see `RowFeed.of`

    @abstractmethod
    def collator(self, recipe: Recipe) -> Collator[Any]:
        """Return what makes batches."""

    def feed(self, recipe: Recipe, prepared: Prepared) -> RowFeed[Any]:
        """Make the training batches. Which rows share a batch does not depend on the device."""
        return RowFeed.of(recipe, prepared, self.collator(recipe), self.shortest)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the tokens that an epoch predicts, end markers included."""
        weighted = zip(prepared.train, prepared.weights, strict=True)
        return sum(weight * (store.tokens(self.written) + len(store)) for store, weight in weighted)

    def validate(self, bundle: Bundle[Any], prepared: Prepared, asked: Asked) -> Validated:
        """Predict what the validation corpora have; also search for outputs, if a score of them is asked for."""
        predicted, recipe = self._likelihood(bundle, prepared.valid, asked), bundle.recipe
        scores = {"loss": predicted.loss, "perplexity": predicted.perplexity}
        if not _searches(recipe, asked):
            return Validated(scores)
        rows = self._asked_rows(recipe, asked)
        with asked.show(f"validating: {self.doing}", len(rows)) as advance:
            options = self.sample_options(recipe, asked.metric, predicted)
            model = self.model_in_use(bundle)
            found = self.evaluate_sample(model, rows, name="`data.valid`", progress=advance, **options)
        outputs, references = found.outputs_and_references()
        return Validated({**scores, **found.validation_scores()}, outputs, references, self.samples(rows, found))

    def line(self, bundle: Bundle[Any], prepared: Prepared, asked: Asked) -> Line | None:
        """Score what the line to beat writes for validation rows; None where the validation scores no outputs."""
        if not _searches(bundle.recipe, asked):
            return None
        return self.written_by_line(bundle, prepared, self._asked_rows(bundle.recipe, asked), asked)

    def written_by_line(self, bundle: Bundle[Any], prepared: Prepared, rows: Sequence[Any], asked: Asked) -> Line:
        """Score what the line to beat writes for rows of the validation corpora."""
        raise NotImplementedError

    def _asked_rows(self, recipe: Recipe, asked: Asked) -> list[Any]:
        """Return rows of the validation corpora, as many as asked for, at equal distances."""
        rows = list(self.validation_rows(recipe))
        return [rows[index] for index in spread(asked.most or len(rows), len(rows)).tolist()]

    @abstractmethod
    def validation_rows(self, recipe: Recipe) -> Iterable[Any]:
        """Read the rows of the validation corpora that can be evaluated."""

    def sample_options(self, recipe: Recipe, metric: str, predicted: Likelihood) -> Mapping[str, Any]:
        """Return options of `evaluate_sample`, given the metric that decides and the likelihood of the sample."""
        return {"metric": validation_names(recipe, metric), "likelihood": predicted}

    def evaluate_sample(self, model: Any, rows: Sequence[Any], **options: Any) -> Any:
        """Evaluate a model on rows of the validation corpora, greedily."""
        return model.evaluate_rows(rows, beam=1, **options)

    def samples(self, rows: Sequence[Any], found: Any) -> Sequence[Sample]:
        """Return a few of the outputs that were found for rows; most tasks show none."""
        return ()

    def _likelihood(self, bundle: Bundle[Any], stores: Sequence[TokenStore], asked: Asked) -> Likelihood:
        """Return the likelihood of what rows of stores predict; refuse one that is not finite, before any search."""
        count, collator = sum(map(len, stores)), self.collator(bundle.recipe)
        rows = spread(asked.most or count, count)
        plan = batches_by_length(collator.costs(stores, rows), batch_tokens=bundle.recipe.data.batch_tokens)
        with asked.show("validating", len(rows)) as advance:

            def batches() -> Iterator[Any]:
                for indices in plan:
                    yield collator.batch(stores, rows[indices], multiple=CPU_MULTIPLE)
                    advance(len(indices))

            found = likelihood(bundle.model, batches())
        refuse_diverged(found.loss)
        return found


def _searches(recipe: Recipe, asked: Asked) -> bool:
    """Whether a validation searches for outputs, to score them."""
    of_texts = asked.metric not in ("loss", "perplexity")
    return of_texts or asked.outputs or recipe.train.validation.translate


class SequenceTask(SearchingTask):
    """Learns the next token of a target from pairs of sequences."""

    shortest = 8  # batches of sentences that are all shorter leave some of the budget unused

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; given vocabularies are kept."""
        return prepare(recipe, say, given)

    def objective(self, recipe: Recipe, prepared: Prepared) -> NextToken:
        """Make the objective that training minimises."""
        return NextToken(recipe.label_smoothing)

    def collator(self, recipe: Recipe) -> PairCollator:
        """Return what makes batches of pairs."""
        return PairCollator()

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        return static_layout(recipe.model, recipe.data, recipe.data.max_length + 1, self.shortest, precision)

    def validator(self, bundle: Bundle[EncoderDecoder], prepared: Prepared) -> Validator:
        """Refuse pairs that cannot be scored, before training and not at the first validation."""
        limits = [limit for limit in (source_limit(bundle.model), bundle.model.decoder.longest) if limit is not None]
        longest = max((int(cost.max()) for cost in pair_costs(prepared.valid)), default=0) if prepared.valid else 0
        refuse_long_row(bundle.recipe, longest, min(limits, default=None), "sentence", "the pair")
        return super().validator(bundle, prepared)


def refuse_long_row(recipe: Recipe, longest: int, limit: int | None, noun: str, row: str) -> None:
    """Refuse validation rows that cannot be scored, given the most tokens of one with its end marker.

    `limit` is the number of tokens that the model has positions for.
    """
    if longest > LONGEST_SCORED:
        raise UserError(
            f"`data.valid` has a {noun} of {longest:,} tokens with its end marker, but at most "
            f"{LONGEST_SCORED:,} are scored: leave {row} out."
        )
    if limit is not None and longest > limit:
        key = (recipe.model.longest or (0, ""))[1]
        part = key.removesuffix("max_positions")
        way_out = "raise it" if key.endswith("max_places") else f'use `model.{part}positions = "sinusoidal"`'
        raise UserError(
            f"`data.valid` has a {noun} of {longest:,} tokens with its end marker, but the model has positions "
            f"for {limit:,} (`model.{key}`): leave {row} out, or {way_out}."
        )
