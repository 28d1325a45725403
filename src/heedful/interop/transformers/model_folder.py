"""A model folder in the Hugging Face format. Its files are read, never executed: safetensors and JSON only."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from heedful.base.errors import UserError
from heedful.base.files import read_bytes, read_json

# --- tensors by name: each is taken once and checked, and a file with tensors left over is refused --------------------


class CheckedWeights:
    """The tensors of a file that were not taken yet; `take` returns them as float32."""

    def __init__(self, where: Path, tensors: dict[str, Tensor]) -> None:
        self._where, self._left = where, dict(tensors)

    def take(self, name: str, *shape: int) -> Tensor:
        """Take a tensor of this shape, or refuse a file without it."""
        return self.take_one([name], *shape)

    def take_one(self, names: Sequence[str], *shape: int) -> Tensor:
        """Take a tensor that a file may store under any of these names."""
        found = [self._left.pop(name) for name in names if name in self._left]
        if not found:
            raise UserError(f"{self._where} lacks `{names[0]}`, which {self._config} requires: copy the model again.")
        return self._checked(names[0], found[0], shape)

    def take_or(self, default: Tensor, name: str) -> Tensor:
        """Take a tensor of the default's shape, or return the default if the file does not have it."""
        if name not in self._left:
            return default
        return self._checked(name, self._left.pop(name), tuple(default.shape))

    def refuse_rest(self) -> None:
        """Refuse a file with tensors that were not taken."""
        for name in sorted(self._left):
            raise UserError(
                f"{self._where} has `{name}`, which does not belong to the model that {self._config} describes."
            )

    @property
    def _config(self) -> Path:
        return self._where.with_name("config.json")

    def _checked(self, name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        if tuple(tensor.shape) != shape:
            raise UserError(
                f"{self._where}: `{name}` has shape {tuple(tensor.shape)}, but {self._config} requires {shape}."
            )
        if not tensor.isfinite().all():
            raise UserError(f"{self._where}: `{name}` has values that are not finite: copy the model again.")
        return tensor.float()


# --- the values of a config.json, each checked when it is read --------------------------------------------------------


_MOST: Final = 10_000_000  # no size in a model is larger
ACTIVATIONS: Final = {  # our names
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def theirs_of(activation: str) -> str:
    """Return their name of one of our activations."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == activation)


@dataclass(frozen=True)
class CheckedConfig:
    """The values of a JSON file by key; null counts as missing."""

    where: Path
    values: Mapping[str, Any]

    def number(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 1; a key without a default must be present."""
        value = self._value(key, default)
        if type(value) is not int:
            raise self._refusal(key, value, "a whole number")
        if not 1 <= value <= _MOST:
            raise self._refusal(key, value, f"a whole number from 1 to {_MOST:,}")
        return value

    def index(self, key: str, size: int) -> int:
        """Return a whole number from 0 up to, but not including, `size`."""
        value = self._value(key, None)
        if type(value) is not int or not 0 <= value < size:
            raise self._refusal(key, value, f"one whole number from 0 to {size - 1:,}")
        return value

    def divisor(self, key: str, whole: str) -> int:
        """Return a whole number that divides the value of another key."""
        value, total = self.number(key), self.number(whole)
        if total % value:
            raise self._refusal(key, value, f"a divisor of `{whole}` ({total:,})")
        return value

    def real(self, key: str, default: float) -> float:
        """Return a number above 0."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise self._refusal(key, value, "a number above 0")
        return float(value)

    def fraction(self, key: str, default: float) -> float:
        """Return a number from 0 up to, but not including, 1."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise self._refusal(key, value, "at least 0 and below 1")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self._value(key, default)
        if type(value) is not bool:
            raise self._refusal(key, value, "true or false")
        return value

    def choice(self, key: str, choices: Mapping[str, str]) -> str:
        """Return what a table maps the value to."""
        value = self._value(key, None)
        if value not in tuple(choices):
            raise self._refusal(key, value, f"one of {', '.join(choices)}")
        return choices[value]

    def table(self, key: str) -> "CheckedConfig":
        """Return the values of a table, by the key of the table and their own; a missing table has none."""
        value = self._value(key, {})
        if not isinstance(value, dict):
            raise self._refusal(key, value, "a table")
        return CheckedConfig(self.where, {f"{key}.{name}": inner for name, inner in value.items()})

    def must_be(self, key: str, wanted: Any, why: str) -> None:
        """Refuse any value other than this one; a missing value is accepted."""
        value = self._value(key, wanted)
        if value != wanted:
            raise UserError(f"{self.where}: `{key}` is {json.dumps(value)}, but must be {json.dumps(wanted)}: {why}.")

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def _refusal(self, key: str, value: Any, wanted: str) -> UserError:
        what = "is missing" if value is None else f"is {json.dumps(value)}"
        return UserError(f"{self.where}: `{key}` {what}, but must be {wanted}.")


# --- the folder -------------------------------------------------------------------------------------------------------


CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
_PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_CODE: Final = ("modeling_*.py", "configuration_*.py", "tokenization_*.py")  # as `auto_map` names them


@dataclass(frozen=True)
class ModelFolder:
    """A model folder; use `open_folder` to create one."""

    path: Path
    config: CheckedConfig

    @cached_property
    def model_type(self) -> str:
        """The name that `transformers` gives to this kind of model."""
        value = self.config.values.get("model_type")
        if not isinstance(value, str):
            raise UserError(f"{self.config.where} has no `model_type`: it is not a model of `transformers`.")
        return value

    def read_config(self, name: str) -> CheckedConfig:
        """Read the values of a JSON file; a missing file has none."""
        return _read_config(self.path / name) if (self.path / name).exists() else CheckedConfig(self.path / name, {})

    def require(self, name: str) -> Path:
        """Return the path of a file, or refuse a folder without it."""
        if not (self.path / name).is_file():
            raise UserError(f"{self.path} has no {name}, which a {self.model_type} model needs: copy it there.")
        return self.path / name

    def weights(self) -> CheckedWeights:
        """Read all weights, from one file or from the files listed in an index."""
        if (self.path / WEIGHTS).exists():
            return CheckedWeights(self.path / WEIGHTS, _tensors(self.path / WEIGHTS))
        if (self.path / INDEX).exists():
            shards = [_tensors(shard) for shard in self._shards()]
            return CheckedWeights(
                self.path / INDEX, {name: tensor for shard in shards for name, tensor in shard.items()}
            )
        pickles = sorted(file.name for pattern in _PICKLES for file in self.path.glob(pattern))
        if pickles:
            raise UserError(
                f"{self.path} holds its weights as a pickle ({pickles[0]}), which can run code: load it in "
                "`transformers`, and save it with `save_pretrained(..., safe_serialization=True)`."
            )
        raise UserError(f"{self.path} has no {WEIGHTS}: copy it there.")

    def _shards(self) -> Iterator[Path]:
        listed = _read_config(self.path / INDEX).values.get("weight_map")
        if not isinstance(listed, dict):
            raise UserError(f"{self.path / INDEX} has no `weight_map`, which lists the weight files: copy it again.")
        for name in sorted({str(name) for name in listed.values()}):
            if Path(name).name != name or not name.endswith(".safetensors"):
                raise UserError(
                    f"{self.path / INDEX} names `{name}`, but may only name safetensors files in the same folder."
                )
            yield self.path / name


def open_folder(path: Path) -> ModelFolder:
    """Open a model folder, or refuse one whose model needs its own code."""
    if not path.is_dir():
        raise UserError(f"{path} is not a folder: choose one with a model's {CONFIG} and weights.")
    if not (path / CONFIG).exists():
        raise UserError(f"{path} has no {CONFIG}: choose a folder written by `save_pretrained` of `transformers`.")
    for name in (CONFIG, "tokenizer_config.json"):
        if (path / name).exists() and "auto_map" in _read_config(path / name).values:
            raise UserError(f"{path / name}: `auto_map` asks to run the model's own code, which Heedful never does.")
    code = sorted(file.name for pattern in _CODE for file in path.glob(pattern))
    if code:
        raise UserError(f"{path} contains {code[0]}, the model's own code, which Heedful never runs.")
    return ModelFolder(path, _read_config(path / CONFIG))


def _read_config(path: Path) -> CheckedConfig:
    values = read_json(path)
    if not isinstance(values, dict):
        raise UserError(f"{path} must contain a JSON object, but contains something else: copy it again.")
    return CheckedConfig(path, values)


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load(read_bytes(path))
    except SafetensorError as error:
        raise UserError(f"{path} is damaged ({error}): copy it again.") from error
