"""`heedful.evaluate`: scores of a model on data in memory, or on the corpora of its recipe."""

from os import PathLike
from typing import Annotated, Any, Literal, Unpack, overload

from heedful.base.arguments import check_path
from heedful.base.errors import UserError
from heedful.base.options import Option, show_options
from heedful.config.decode import SearchOptions
from heedful.config.tasks import choose_metrics, refuse_evaluation_option
from heedful.data.corpora.files import check_files
from heedful.data.corpora.given_file import given_corpus
from heedful.metrics.own_metrics import GivenMetrics, MetricNames, check_metrics, metrics_by_name
from heedful.tasks.answer.answer import MAX_ANSWER
from heedful.tasks.loading import find_task, load
from heedful.tasks.shared.evaluation import Evaluation
from heedful.tasks.shared.loaded_model import LoadedModel
from heedful.tasks.shared.task import Task


class EvaluationOptions(SearchOptions, total=False):
    """Options of evaluations: those of the search for translations, and those of other tasks."""

    stride: Annotated[int | None, Option("Tokens by which the window of a language model moves (default: its length).")]
    threshold: Annotated[
        float, Option("How much greater a reader's log P(no answer) must be than its best answer's to give none.", 0.0)
    ]
    max_answer: Annotated[int, Option("Maximum tokens of a reader's answer.", MAX_ANSWER)]
    unconstrained: Annotated[bool, Option("Let a parser write what is not a tree; such a sentence has no tree.", False)]


AnyModel = LoadedModel[Any] | str | PathLike[str]


@overload
def evaluate(
    model: AnyModel,
    data: None = None,
    *,
    split: Literal["valid", "test"] = "test",
    device: str = "auto",
    precision: str = "auto",
    task: Task | None = None,
    metrics: GivenMetrics | MetricNames | None = None,
    **options: Unpack[EvaluationOptions],
) -> dict[str, Evaluation]: ...
@overload
def evaluate(
    model: AnyModel,
    data: object,
    *,
    device: str = "auto",
    precision: str = "auto",
    metrics: GivenMetrics | MetricNames | None = None,
    **options: Unpack[EvaluationOptions],
) -> Evaluation: ...
@show_options(EvaluationOptions)
def evaluate(
    model: AnyModel,
    data: object = None,
    *,
    split: Literal["valid", "test"] = "test",
    device: str = "auto",
    precision: str = "auto",
    task: Task | None = None,
    metrics: GivenMetrics | MetricNames | None = None,
    **options: Unpack[EvaluationOptions],
) -> Evaluation | dict[str, Evaluation]:
    """Score a loaded model, or the model in a folder, on data in memory: see its method `evaluate`.

    A path is a file, or a folder of images, with the columns of the recipe's corpora: the scores are those of
    `heedful evaluate --data`.

    Without data, score it on the corpora of its recipe, and return the scores of each by name, or by number for one
    without a name: those of `data.test`, or of `data.valid` with `split="valid"`. `device` and `precision` are those of
    `heedful.load`. `metrics` are functions of your own by name, which score what the model predicts against the
    references: see `heedful.Metric`; or a list of names of the task's metrics, such as `["per", "wer"]`. An option that
    does not apply to the task of the model is refused.
    """
    if split not in ("valid", "test"):
        raise UserError(f'`split` is {split!r}, but must be "valid" or "test".')
    loaded: Any = (
        model if isinstance(model, LoadedModel) else load(check_path("model", model), device, precision, task=task)
    )
    recipe = loaded.recipe
    names = metrics_by_name(metrics)
    own = {} if names else check_metrics(metrics, recipe.rules)
    named = "The model" if isinstance(model, LoadedModel) else str(model)
    chosen: tuple[str, ...] = ()
    if names is not None and "metric" not in recipe.rules.evaluation_options:
        chosen, names = choose_metrics(names, recipe.rules, named), None
    for option in options:
        refuse_evaluation_option(option, f"`{option}`", recipe.rules, named)
    if isinstance(data, str | PathLike):
        corpus = given_corpus(recipe, str(check_path("data", data)))
        named_metric: dict[str, Any] = {} if names is None else {"metric": names}
        return find_task(recipe, task).evaluate(loaded, corpus, "", {**options, **named_metric}).with_metrics(own)
    if data is not None:
        by_name: dict[str, Any] = {} if names is None else {"metrics": names}
        found: Evaluation = loaded.evaluate(data, **by_name, **options).with_metrics(own)
        return found.choose(chosen)
    corpora, folder = getattr(recipe.data, split), recipe.data.folder
    if not corpora:
        raise UserError(f"{named}: its recipe has no `data.{split}`: give `data`.")
    for corpus in corpora:
        check_files(corpus, folder)
    asked: dict[str, Any] = {**options} if names is None else {**options, "metric": names}
    doing = find_task(recipe, task)
    return {
        corpus.name or str(number): doing.evaluate(loaded, corpus, folder, asked).with_metrics(own).choose(chosen)
        for number, corpus in enumerate(corpora, start=1)
    }
