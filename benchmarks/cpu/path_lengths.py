"""Is a dependency learned more easily over a short path? Vaswani et al. 2017, 4, on a CPU.

    python -m benchmarks.cpu.path_lengths [--layers gru lstm] [--long] [--tiny]

One layer of width 32 reads n random tokens of eight kinds, and its last output says which the first token was. The path
from there is one layer of self-attention, whatever n is, and n steps of a recurrence. 300 updates of 32 sequences by
Adam with a rate of 0.003; accuracy on 20 further batches, mean of three seeds. By chance it is 0.125.

`--long` gives recurrences 1,000 updates at n = 16 instead: is the dependency learned later, and by cells with gates
first?

Records path_lengths.json: `KIND_N`, or `KIND_N_long`, of the last 640 sequences. What other runs recorded is kept.
"""

import argparse
from statistics import mean

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.metrics.recorded_results import record
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.layers.positions import Sinusoidal
from heedful.nn.recurrent.stack import CellKind, RecurrentStack

KINDS, WIDTH, BATCH, TESTED = 8, 32, 32, 20
LAYERS: dict[str, CellKind | None] = {"self_attention": None, "lstm": "lstm", "gru": "gru", "rnn_tanh": "rnn_tanh"}
LENGTHS, UPDATES = (4, 16, 64), 300
LONG_LENGTHS, LONG_UPDATES = (16,), 1000


class Recall(nn.Module):
    """One layer between an embedding and a linear map of its last output."""

    def __init__(self, cell: CellKind | None, length: int) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(KINDS, WIDTH), nn.Linear(WIDTH, KINDS)
        self.layer = SelfAttention(WIDTH, 1) if cell is None else RecurrentStack(cell, WIDTH, WIDTH)
        self.positions = Sinusoidal(WIDTH).table[:length] if cell is None else torch.zeros(length, WIDTH)
        self.layout = Layout.of([length] * BATCH)

    def forward(self, tokens_BL: Tensor) -> Tensor:
        """Score what the first token was."""
        x_BLE = self.embedding(tokens_BL) + self.positions
        y = self.layer(x_BLE.flatten(0, 1), self.layout)
        y_NE = y[0] if isinstance(y, tuple) else y
        scores: Tensor = self.output(y_NE.view_as(x_BLE)[:, -1])
        return scores


def accuracy(cell: CellKind | None, length: int, seed: int, updates: int) -> float:
    """Train, and return the share of first tokens that are told in batches that were not seen."""
    torch.manual_seed(seed)
    model = Recall(cell, length)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    right = []
    for update in range(updates + TESTED):
        tokens_BL = torch.randint(KINDS, (BATCH, length))
        scores_BK = model(tokens_BL)
        if update >= updates:
            right.append(float((scores_BK.argmax(1) == tokens_BL[:, 0]).float().mean()))
            continue
        optimizer.zero_grad()
        F.cross_entropy(scores_BK, tokens_BL[:, 0]).backward()
        optimizer.step()
    return mean(right)


def main() -> None:
    """Measure, and record."""
    parser = argparse.ArgumentParser(description="Accuracy of recalling the first token, by length and layer.")
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS), help="by default all")
    parser.add_argument("--long", action="store_true", help="train recurrences for longer, at one length")
    parser.add_argument("--tiny", action="store_true", help="try the program out, and record nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = [name for name in options.layers if LAYERS[name] is not None or not options.long]
    lengths, updates = (LONG_LENGTHS, LONG_UPDATES) if options.long else (LENGTHS, UPDATES)
    seeds, updates = ([1], 2) if options.tiny else ([1, 2, 3], updates)
    found = {
        f"{name}_{length}{'_long' if options.long else ''}": mean(
            accuracy(LAYERS[name], length, seed, updates) for seed in seeds
        )
        for name in names
        for length in lengths
    }
    for name, figure in found.items():
        print(f"{name:20} {figure:.3f}")
    if not options.tiny:
        print(record("path_lengths", found, command="python -m benchmarks.cpu.path_lengths", seeds=seeds, merge=True))


if __name__ == "__main__":
    main()
