"""Reads models that map one sequence to another: one, or several that decode together."""

from collections.abc import Sequence
from pathlib import Path

from heedful.base.errors import UserError
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import from_outside
from heedful.decode.ensemble import Ensemble
from heedful.decode.scorer import Scorer, SingleModel
from heedful.models.bundle import Bundle, other_task, read_bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.loaded_model import Placement


def read_sequence_models(
    folders: Sequence[Path], placement: Placement, rules: TaskRules
) -> list[Bundle[EncoderDecoder]]:
    """Read a model of this task from its folder, or several with the same vocabularies, and place them."""
    bundles = [read_bundle(path, EncoderDecoder, from_outside(rules)) for path in folders]
    for path, bundle in zip(folders, bundles, strict=True):
        if bundle.recipe.rules.name != rules.name:
            raise other_task(path, bundle.recipe)
        _refuse_other_vocabulary(path, bundle, folders[0], bundles[0])
        placement.put(bundle.model)
    return bundles


def scorer_of(networks: Sequence[EncoderDecoder]) -> Scorer:
    """Return what a search asks for scores: the network, or the ensemble of several."""
    return Ensemble(networks) if len(networks) > 1 else SingleModel(networks[0])


def _refuse_other_vocabulary(
    folder: Path, bundle: Bundle[EncoderDecoder], first: Path, of_first: Bundle[EncoderDecoder]
) -> None:
    side = bundle.vocabularies.first_difference(of_first.vocabularies)
    if side is None:
        return
    ours, theirs = bundle.vocabularies[side], of_first.vocabularies[side]
    raise UserError(
        f"{folder} has another {side} vocabulary ({ours.size:,} pieces, {ours.fingerprint[:8]}) than {first} "
        f"({theirs.size:,} pieces, {theirs.fingerprint[:8]}): models of an ensemble must share theirs."
    )
