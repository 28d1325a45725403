"""Muon for the matrices of hidden layers and AdamW for all other weights, as one optimizer."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

Groups = list[dict[str, Any]]


class MuonWithAdamW(torch.optim.Optimizer):
    """Steps both; groups, state and numbers of parameters are those of Muon, and then those of AdamW."""

    def __init__(self, muon: torch.optim.Muon, adamw: torch.optim.AdamW) -> None:
        self.parts = (muon, adamw)
        super().__init__([group for part in self.parts for group in part.param_groups], {})

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Step both."""
        for part in self.parts:
            part.step(closure)  # type: ignore[no-untyped-call]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of both, numbered in order."""
        state: dict[int, Any] = {}
        groups: Groups = []
        for part in self.parts:
            first, own = _count(groups), part.state_dict()
            state |= {first + index: tensors for index, tensors in own["state"].items()}
            groups += [
                {**group, "params": [first + index for index in group["params"]]} for group in own["param_groups"]
            ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the state of both."""
        groups: Groups = list(state_dict["param_groups"])
        for part in self.parts:
            own, groups = groups[: len(part.param_groups)], groups[len(part.param_groups) :]
            first = own[0]["params"][0] if _count(own) else 0
            numbers = {number: number - first for group in own for number in group["params"]}
            part.load_state_dict(
                {
                    "state": {numbers[index]: s for index, s in state_dict["state"].items() if index in numbers},
                    "param_groups": [{**g, "params": [numbers[number] for number in g["params"]]} for g in own],
                }
            )
        self.param_groups = [group for part in self.parts for group in part.param_groups]


def _count(groups: Groups) -> int:
    return sum(len(group["params"]) for group in groups)
