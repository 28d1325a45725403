"""Learning rates over the updates of a run, of recipes and of schedules by name."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from heedful.base.errors import UserError, suggestion
from heedful.config.recipe import Recipe
from heedful.config.train.optimizers import Adam, RAdam
from heedful.config.train.schedules import (
    AnySchedule,
    AnyWarmup,
    InverseSqrt,
    Noam,
    UntunedExponentialWarmup,
    UntunedLinearWarmup,
)
from heedful.pages.charts.lines import Series, line_chart
from heedful.training.schedules import build_drawn_rate

# Vaswani et al. 2017, 5.3, for three models, as The Annotated Transformer draws it.
USUAL: Final = ("noam,width=512,warmup=4000", "noam,width=512,warmup=8000", "noam,width=256,warmup=4000")
_POINTS: Final = 400
_STEPS: Final = 20_000
_OWN: Final = {"width": 512, "steps": 0}  # keys that are not the schedule's: of the model and of the run
_WARMUPS: Final[dict[str, AnyWarmup]] = {
    "untuned_linear": UntunedLinearWarmup(kind="untuned_linear"),
    "untuned_exponential": UntunedExponentialWarmup(kind="untuned_exponential"),
}


@dataclass(frozen=True)
class Curve:
    """A learning rate as a function of the update, and the last update of its run; 0 where nothing sets it."""

    name: str
    rate: Callable[[int], float]
    steps: int


def curve_of_recipe(recipe: Recipe, name: str) -> Curve:
    """Return the learning rate with which a recipe trains; with RAdam it is rectified."""
    train = recipe.train
    rate = build_drawn_rate(train.schedule, train.warmup, train.optimizer, recipe.model.width, train.steps)
    return Curve(name, rate, train.steps)


def curve_of_text(given: str, steps: int | None = None) -> Curve:
    """Return the learning rate of a schedule such as `cosine,lr=0.001,warmup=500,steps=5000`.

    `optimizer=radam` rectifies it, and `warmup=untuned_linear` or `warmup=untuned_exponential` multiplies it by that
    warm-up; both follow from `beta2`.
    """
    kind, *pairs = (part.strip() for part in given.split(","))
    values: dict[str, Any] = {"kind": kind}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not value:
            raise UserError(f"--schedule {given}: `{pair}` is not a key with its value: write such as warmup=4000.")
        values[key] = _value(value)
    own = {key: _whole(given, key, values.pop(key, default)) for key, default in _OWN.items()}
    set_beta2 = "beta2" in values
    optimizer = _optimizer(given, values.pop("optimizer", "adam"), values.pop("beta2", None))
    warmup = _WARMUPS.get(str(values.get("warmup")))
    if warmup is not None:
        del values["warmup"]
    elif set_beta2 and not isinstance(optimizer, RAdam):
        raise UserError(
            f"--schedule {given}: `beta2` changes no rate but that of optimizer=radam and of an untuned warm-up: leave "
            "it out, or add one of them."
        )
    try:
        schedule = TypeAdapter[Any](AnySchedule).validate_python(values)
    except ValidationError as error:
        raise UserError(f"--schedule {given}: {_complaint(kind, error.errors()[0])}") from None
    if warmup is not None and isinstance(schedule, Noam | InverseSqrt):
        raise UserError(
            f"--schedule {given}: `warmup` is {warmup.kind}, but the schedule `{kind}` has a warm-up of its own: use "
            "constant, linear or cosine."
        )
    last = own["steps"] or steps or _STEPS
    return Curve(given, build_drawn_rate(schedule, warmup, optimizer, own["width"], last), own["steps"])


def draw_schedules(curves: Sequence[Curve], steps: int | None = None, log_y: bool = False) -> str:
    """Draw learning rates over each other, up to a step or to the end of the longest run."""
    series = []
    for curve in curves:
        last = steps or curve.steps or max((other.steps for other in curves), default=0) or _STEPS
        # The first updates and, beyond them, equal distances: a warm-up of a few updates stays visible.
        at = sorted(
            {*range(1, min(last, 50) + 1), *(1 + (last - 1) * point // _POINTS for point in range(_POINTS + 1))}
        )
        series.append(Series(curve.name, at, [curve.rate(step) for step in at]))
    title = "Learning rate" if len(curves) > 1 else f"Learning rate: {curves[0].name}"
    return line_chart(series, title=title, x_label="update", y_label="learning rate", log_y=log_y)


def _optimizer(given: str, kind: Any, beta2: Any) -> Adam | RAdam:
    kinds: dict[Any, type[Adam | RAdam]] = {"adam": Adam, "radam": RAdam}
    if kind not in kinds:
        raise UserError(f"--schedule {given}: `optimizer` is {kind}, but must be adam or radam.")
    if beta2 is not None and not (isinstance(beta2, float) and 0 < beta2 < 1):
        raise UserError(f"--schedule {given}: `beta2` is {beta2}, but must be a number between 0 and 1.")
    return kinds[kind].model_validate({"kind": kind, **({} if beta2 is None else {"beta2": beta2})})


def _complaint(kind: str, fault: Any) -> str:
    """Say in words what the schema has found."""
    key = ".".join(str(part) for part in fault["loc"][1:])
    match fault["type"]:
        case "union_tag_invalid":
            known = [name.strip("' ") for name in fault["ctx"]["expected_tags"].split(",")]
            return f"`{kind}` is not a schedule.{suggestion(kind, known)}"
        case "missing":
            return f"`{key}` is missing: add such as {key}=0.001."
        case "extra_forbidden":
            return f"`{key}` is not a key of the schedule `{kind}`: leave it out."
        case _:
            return f"`{key}` {fault['msg'].replace('Input should be', 'must be')}."


def _value(written: str) -> Any:
    """Return a number where there is one: the schema does not read texts as numbers."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(written)
    return written


def _whole(given: str, key: str, value: Any) -> int:
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < (0 if key == "steps" else 1):
        raise UserError(f"--schedule {given}: `{key}` is {value}, but must be a whole number from 1 on.")
    return number
