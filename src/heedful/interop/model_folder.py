"""A folder in Hugging Face's form: what is in it is read, never run. Weights are safetensors, the rest is JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from heedful.errors import UserError
from heedful.files import read_bytes, read_json
from heedful.interop.checked_config import CheckedConfig
from heedful.interop.checked_weights import CheckedWeights

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
_PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_CODE: Final = ("modeling_*.py", "configuration_*.py", "tokenization_*.py")  # as `auto_map` names them


@dataclass(frozen=True)
class ModelFolder:
    """A model's folder; `open_folder` makes one."""

    path: Path
    config: CheckedConfig

    @cached_property
    def model_type(self) -> str:
        """What `transformers` calls such models."""
        value = self.config.values.get("model_type")
        if not isinstance(value, str):
            raise UserError(f"{self.config.where} has no `model_type`: it is not a model of `transformers`.")
        return value

    def read_config(self, name: str) -> CheckedConfig:
        """A JSON file's values; none where there is no such file."""
        return _read_config(self.path / name) if (self.path / name).exists() else CheckedConfig(self.path / name, {})

    def require(self, name: str) -> Path:
        """The path of a file; refuses a folder without it."""
        if not (self.path / name).is_file():
            raise UserError(f"{self.path} holds no {name}, which a {self.model_type} model needs: copy it there.")
        return self.path / name

    def weights(self) -> CheckedWeights:
        """All weights, of one file or of several that an index names."""
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
                "`transformers`, and write it with `save_pretrained(..., safe_serialization=True)`."
            )
        raise UserError(f"{self.path} holds no {WEIGHTS}: copy it there.")

    def _shards(self) -> Iterator[Path]:
        listed = _read_config(self.path / INDEX).values.get("weight_map")
        if not isinstance(listed, dict):
            raise UserError(
                f"{self.path / INDEX} has no `weight_map`, which names the files of weights: copy it again."
            )
        for name in sorted({str(name) for name in listed.values()}):
            if Path(name).name != name or not name.endswith(".safetensors"):
                raise UserError(f"{self.path / INDEX} names `{name}`, but may name safetensors of its folder alone.")
            yield self.path / name


def open_folder(path: Path) -> ModelFolder:
    """Open a model's folder; refuses one whose model only code of its own can run."""
    if not path.is_dir():
        raise UserError(f"{path} is not a folder: name one that holds a model's {CONFIG} and weights.")
    if not (path / CONFIG).exists():
        raise UserError(f"{path} holds no {CONFIG}: name a folder that `save_pretrained` of `transformers` wrote.")
    for name in (CONFIG, "tokenizer_config.json"):
        if (path / name).exists() and "auto_map" in _read_config(path / name).values:
            raise UserError(f"{path / name}: `auto_map` asks to run code that came with the model: Heedful runs none.")
    code = sorted(file.name for pattern in _CODE for file in path.glob(pattern))
    if code:
        raise UserError(f"{path} holds {code[0]}, code that came with the model: Heedful runs none.")
    return ModelFolder(path, _read_config(path / CONFIG))


def _read_config(path: Path) -> CheckedConfig:
    values = read_json(path)
    if not isinstance(values, dict):
        raise UserError(f"{path} must hold a JSON object, but holds something else: copy it again.")
    return CheckedConfig(path, values)


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load(read_bytes(path))
    except SafetensorError as error:
        raise UserError(f"{path} is damaged ({error}): copy it again.") from error
