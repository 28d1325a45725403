"""The base class of loaded models of all tasks."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, ClassVar, Generic, Self, TypedDict, TypeVar

import torch
from torch import nn

from heedful.base.arguments import check_path
from heedful.base.devices import INT8, PRECISIONS, choose_device, has_bfloat16
from heedful.base.errors import UserError, by_caller, counted
from heedful.base.notes import detail, note
from heedful.base.options import Option
from heedful.config.reading.bundle_config import other_task
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import from_outside
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.explain.capture import Head, silence_heads
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import Bundle, NetworkType, read_bundle
from heedful.models.networks import precision_of, set_precision, store_in
from heedful.native.encoder import forget_kernels, use_native_blocks
from heedful.native.floats import use_float_maps
from heedful.native.int8 import count_parameters, is_int8, to_int8
from heedful.native.library import find_library
from heedful.tasks.shared.evaluation import Evaluation

Found = TypeVar("Found", bound=Evaluation)


@dataclass(frozen=True)
class Placement:
    """A device, and the precision of weights and activations on it: a name, or `auto`."""

    device: torch.device
    precision: str

    @classmethod
    def of(cls, device: str, precision: str) -> "Placement":
        """Parse a user's choice. The device `auto` is a GPU where there is one."""
        if not (isinstance(device, str) and re.fullmatch(r"auto|cpu|cuda(:\d+)?", device)):
            raise UserError(f"`{device}` is not a device: use `auto`, `cpu`, `cuda` or `cuda:1`.")
        if precision not in ("auto", *PRECISIONS, INT8):
            raise UserError(f"`{precision}` is not a precision: use `auto`, `float32`, `bfloat16` or `int8`.")
        place = choose_device(device)
        if precision == INT8 and place.type != "cpu":
            raise UserError(
                f"int8 runs on a CPU, not on {place}: {by_caller('add --device cpu', 'choose the device `cpu`')}, or "
                "another precision."
            )
        return cls(place, precision)

    def put(self, network: nn.Module, usual: str = "auto") -> None:
        """Move a network to the device, in the precision; `usual` is its own, which `auto` follows."""
        precision = self.resolve(usual)
        if is_int8(network):
            if precision == INT8 or (self.device.type == "cpu" and self.precision == "auto"):
                return
            raise UserError(
                f"The model's weights are in int8 by now, which cannot become {precision} on {self.device}: load it "
                "again with this device and precision."
            )
        stored = PRECISIONS.get(precision, torch.float32)
        forget_kernels(network)
        network.to(self.device)
        store_in(network, stored)
        set_precision(network, stored)
        if precision == INT8:
            _put_in_int8(network)
        elif precision == "float32" and self.device.type == "cpu":
            use_float_maps(network)
            use_native_blocks(network)

    def resolve(self, usual: str) -> str:
        """Return the name of a precision. `auto` is a model's own; without one, bfloat16 on a GPU, float32 on a CPU."""
        if self.precision != "auto":
            return self.precision
        on_gpu = self.device.type == "cuda"
        if usual != "auto" and not (on_gpu and usual == INT8):
            return usual
        return "bfloat16" if on_gpu and has_bfloat16(self.device) else "float32"


def _put_in_int8(network: nn.Module) -> None:
    """Quantize a network, and let kernels run what they can; say with `--verbose` what they cannot run, and why."""
    to_int8(network)
    if not is_int8(network):
        note("int8: this network has no linear maps of Heedful, and stays in float32")
        return
    refused = use_native_blocks(network)
    kernels = find_library()
    if isinstance(kernels, str):
        detail(f"int8: PyTorch computes everything, as {kernels}")
        return
    detail(f"int8: kernels for {kernels.compiled.instructions.title}")
    for reason in dict.fromkeys(refused.values()):
        count = sum(other == reason for other in refused.values())
        detail(f"int8: PyTorch runs {counted(count, 'block')} of encoders, not the kernels: {reason}")


class LoadedModel(Generic[NetworkType]):
    """A trained model with its recipe and vocabularies."""

    _rules: ClassVar[TaskRules]  # of the task that such models are trained for
    _network: ClassVar[type[nn.Module]]  # type of their networks
    _ensembles: ClassVar[bool] = False  # whether several can answer together

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        device: str = "auto",
        precision: str = "auto",
        *,
        adapter: str | PathLike[str] | None = None,
    ) -> Self:
        """Load such a model as `heedful.load` does; refuse any other model."""
        place = Placement.of(device, precision)
        return read_model(cls, [check_path("path", path)], place, adapter=adapter_folder(adapter))

    def __init__(self, bundle: Bundle[NetworkType]) -> None:
        self._bundle = bundle

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._facts())}>"

    @property
    def bundle(self) -> Bundle[NetworkType]:
        """Bundle that the model was loaded from."""
        return self._bundle

    @property
    def recipe(self) -> Recipe:
        """Recipe that the model was trained with, with all defaults."""
        return self._bundle.recipe

    @property
    def vocabularies(self) -> Vocabularies:
        """Tokenizers by name: "source" and "target", or "text"; and the names of classes."""
        return self._bundle.vocabularies

    @property
    def network(self) -> NetworkType:
        """PyTorch module; the first one of an ensemble."""
        return self._bundle.model

    @property
    def device(self) -> torch.device:
        """Device that the model runs on."""
        return next(self.network.parameters()).device

    @property
    def precision(self) -> torch.dtype:
        """Data type that the model computes in; torch.int8 where its matrices are in int8."""
        return torch.int8 if is_int8(self.network) else precision_of(self.network)

    def to(self, device: str | torch.device, precision: str = "auto") -> Self:
        """Move the model to a device, and return it. Both arguments are as those of `load`.

        Weights that were once stored in bfloat16 do not regain what float32 had before. A model in int8 stays where it
        is.
        """
        placement = Placement.of(str(device), precision)
        for network in self._all_networks():
            placement.put(network, self.recipe.decode.precision)
        vars(self).pop("_scorer", None)  # what a search recorded on another device is of no use here
        return self

    def with_adapter(self, adapter: str | PathLike[str]) -> Self:
        """Return this model with an adapter (`train.adapter`), where this model is; this one stays as it is.

        Several adapters of one model can be in use at the same time: what they do not adapt is in memory once. Of a
        model that has an adapter, it is the same base with another one.
        """
        base = self._bundle.folder
        if base is None or len(self._all_networks()) > 1:
            what = "an ensemble" if base is not None else "a model that was not loaded from a folder"
            raise UserError(f"`with_adapter` adapts a single loaded model, not {what}: load the model alone.")
        bundle: Bundle[Any] = read_bundle(
            base, type(self)._network, from_outside(self.recipe.rules), adapter_folder(adapter)
        )
        if bundle.recipe.rules.name != self.recipe.rules.name:
            raise other_task(check_path("adapter", adapter), bundle.recipe)
        place = Placement.of(str(self.device), str(self.precision).removeprefix("torch."))
        _share_weights(bundle.model, self.network)  # before kernels pack them
        place.put(bundle.model)
        if place.device.type != "cpu" or self.precision == torch.bfloat16:
            _share_weights(bundle.model, self.network)
        return type(self)(bundle)

    @contextmanager
    def silenced(self, *heads: Head) -> Iterator[Self]:
        """Use the model as if some heads contributed nothing: (kind, layer, head), as in `Explanation`, from 0.

        All methods that this thread calls inside the block see it, in an ensemble those of the first model:
        `with model.silenced(("cross", 0, 1)): model.translate("a dog runs")`.
        """
        if self.device.type != "cpu":
            raise UserError("Heads are silenced on a CPU alone: load the model with the device `cpu`.")
        with silence_heads(self.network, heads):
            yield self

    def _all_networks(self) -> Sequence[nn.Module]:
        return (self.network,)

    def _facts(self) -> Iterator[str]:
        """Yield what `repr` says of the model, the task and the sizes first."""
        yield f"task {self.recipe.rules.name}"
        yield f"family {self.recipe.model.family}"
        yield describe_size(self.network, self.vocabularies)
        yield from self._own_facts()
        yield f"{self.device} in {str(self.precision).removeprefix('torch.')}"

    def _own_facts(self) -> Iterator[str]:
        """Yield what only models of this task have."""
        return iter(())


class EvaluateOptions(TypedDict, total=False):
    """Options of `evaluate`."""

    name: Annotated[str, Option("Name of the data in messages.", "data")]
    progress: Annotated[Callable[[int], None], Option("Called with the number of rows finished since the last call.")]
    metrics: Annotated[
        GivenMetrics | None,
        Option("Functions of your own by name, which get what is predicted and what is true: see `heedful.Metric`."),
    ]


class Evaluates(LoadedModel[NetworkType], Generic[NetworkType, Found]):
    """A loaded model that is evaluated on rows with what is true of each."""

    @abstractmethod
    def _rows(self, data: Any, name: str) -> Sequence[Any]:
        """Return data in memory as rows, with what is true of each."""

    @abstractmethod
    def evaluate_rows(self, rows: Sequence[Any], *, name: str, progress: Callable[[int], None]) -> Found:
        """Predict what is true of rows, and compare."""

    def _evaluate(
        self,
        data: object,
        name: str = "data",
        progress: Callable[[int], None] = lambda ready: None,
        metrics: GivenMetrics | None = None,
        **options: Any,
    ) -> Found:
        """Evaluate the model on data in memory; `options` are those of `evaluate_rows`."""
        own = check_metrics(metrics, self.recipe.rules)
        return self.evaluate_rows(self._rows(data, name), name=name, progress=progress, **options).with_metrics(own)


Model = TypeVar("Model", bound=LoadedModel[Any])


def adapter_folder(adapter: str | PathLike[str] | None) -> Path | None:
    """Return the folder of an adapter that a user names."""
    return None if adapter is None else check_path("adapter", adapter)


def read_model(
    kind: type[Model],
    folders: Sequence[Path],
    placement: Placement,
    rules: TaskRules | None = None,
    adapter: Path | None = None,
) -> Model:
    """Read a model from its folder, or an ensemble from several, and place it.

    `rules` are those of its task, if that is not the one that such models are usually trained for. `adapter` is that of
    the first model.
    """
    rules = rules or kind._rules
    if placement.device.type == "cuda":  # which takes as long as reading the weights
        Thread(target=_wake, args=(placement.device,), daemon=True).start()
    if len(folders) > 1 and not kind._ensembles:
        raise UserError(f"{folders[0]} {rules.does}, and only translators and parsers make an ensemble.")
    bundles: list[Bundle[Any]] = []
    for folder in folders:
        bundle = read_bundle(folder, kind._network, from_outside(rules), None if bundles else adapter)
        if bundle.recipe.rules.name != rules.name:
            raise other_task(folder, bundle.recipe)
        bundles.append(bundle)
        side = bundle.vocabularies.first_difference(bundles[0].vocabularies)
        if side is not None:
            ours, theirs = bundle.vocabularies[side], bundles[0].vocabularies[side]
            raise UserError(
                f"{folder} has another {side} vocabulary ({ours.size:,} pieces, {ours.fingerprint[:8]}) than "
                f"{folders[0]} ({theirs.size:,} pieces, {theirs.fingerprint[:8]}): models of an ensemble must share "
                "theirs."
            )
        placement.put(bundle.model, bundles[0].recipe.decode.precision)
    return kind(*bundles)


def _share_weights(adapted: nn.Module, base: nn.Module) -> None:
    """Let a network use the memory of another one for weights of the same values."""
    own = dict(base.named_parameters())
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            theirs = own.get(name)
            fits = theirs is not None and theirs.dtype == weight.dtype and theirs.device == weight.device
            if theirs is not None and fits and torch.equal(theirs, weight):
                weight.data = theirs.data


def _wake(device: torch.device) -> None:
    """Make a GPU's driver and its library of products ready."""
    with suppress(RuntimeError):  # whoever uses it next reports what is wrong with it
        numbers = torch.zeros(16, 16, device=device)
        numbers @ numbers


def describe_size(network: nn.Module, vocabularies: Vocabularies) -> str:
    """Return the number of parameters and the sizes of the vocabularies in words."""
    parameters = count_parameters(network)
    sizes = " + ".join(f"{tokenizer.size:,}" for tokenizer in vocabularies.files().values())
    count = f"{parameters / 1e6:.1f}M" if parameters >= 100_000 else f"{parameters:,}"
    return f"{count} parameters" + (f", vocabulary {sizes}" if sizes else "")


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return the first names of a list in words, and the number of the others."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown
