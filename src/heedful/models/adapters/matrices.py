"""Which matrices of a network an adapter adapts: groups that a recipe names."""

from collections.abc import Iterator

from torch import nn

from heedful.base.errors import UserError, alternatives
from heedful.config.train.adapters import HIDDEN, Lora, MapName
from heedful.nn.alignments.base import Alignment
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.recurrent.attention import RecurrentAttention


def adapted_matrices(network: nn.Module, settings: Lora, new: frozenset[str]) -> list[str]:
    """Return the names of the matrices that an adapter adapts, in the order of the network; `new` ones learn whole."""
    groups = {name: found for name, found in groups_of(network).items() if name not in new}
    there = {group for found in groups.values() for group in found}
    missing = next((group for group in settings.on or () if group not in there), None)
    if missing is not None:
        way_out = f"use {alternatives(sorted(there))}" if there else "leave out `train.adapter`"
        raise UserError(f'`train.adapter.on` has "{missing}", which this model does not have: {way_out}.')
    chosen = [name for name, found in groups.items() if found & {*(settings.on or HIDDEN)}]
    if not chosen:
        raise UserError("`train.adapter` needs linear maps, which this model does not have: leave it out.")
    weights = dict(network.named_parameters())
    narrow = min(chosen, key=lambda name: min(weights[name].shape[-2:]))
    rows, columns = weights[narrow].shape[-2:]
    if settings.rank > min(rows, columns):
        raise UserError(
            f"`train.adapter.rank` is {settings.rank:,}, but `{narrow}` has {rows:,} rows and {columns:,} columns: use "
            f"{min(rows, columns):,} or less, or other groups in `train.adapter.on`."
        )
    return chosen


def groups_of(network: nn.Module) -> dict[str, set[MapName]]:
    """Return the groups of each matrix that can be adapted; one that is tied to others may be in several."""
    names = {parameter: name for name, parameter in network.named_parameters()}
    found: dict[str, set[MapName]] = {name: set() for name in names.values()}
    for path, module in network.named_modules():
        for key, parameter in module.named_parameters(recurse=False):
            if parameter.ndim >= 2 and min(parameter.shape[-2:]) > 1 and (group := _group(network, path, module, key)):
                found[names[parameter]].add(group)
    return {name: groups for name, groups in found.items() if groups}


def _group(network: nn.Module, path: str, owner: nn.Module, key: str) -> MapName | None:
    above = [*_above(network, path)]
    match owner:
        case Embedding() if key == "weight":
            return "embedding"
        case nn.ParameterList() if above and isinstance(above[-1], Embedding):  # of mixed embeddings
            return "embedding"
        case Output():
            return "output"
        case nn.RNNBase():
            return "recurrent"
        case nn.Linear() if len(above) == 1:  # the head of a classifier, a tagger, a reader
            return "output"
        case nn.Linear():
            return _reader(above) or "network"
        case Alignment() if key.endswith("weight"):
            return _reader(above)
        case _:
            return None


def _reader(above: list[nn.Module]) -> MapName | None:
    """Return the kind of attention that a part belongs to."""
    for module in reversed(above):
        match module:
            case SelfAttention():
                return "attention"
            case CrossAttention() | RecurrentAttention():
                return "cross"
            case _:
                pass
    return None


def _above(network: nn.Module, path: str) -> Iterator[nn.Module]:
    """Yield the modules that a module is in, the outermost first."""
    module = network
    for key in path.split(".") if path else ():
        yield module
        module = module.get_submodule(key)
