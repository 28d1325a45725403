"""A model folder in the Hugging Face format. Its files are read, never executed: safetensors and JSON only."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from heedful.base.errors import UserError
from heedful.base.files import read_bytes, read_json
from heedful.interop.checked_config import CheckedConfig
from heedful.interop.checked_weights import CheckedWeights

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
