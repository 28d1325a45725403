"""Random operations of the kernels next to their definitions, in PyTorch; alone, to be run with sanitizers.

python -m tests.unit.native.random_programs COUNT FIRST [FLAG ...]: compile with these flags, run, and print a line.
"""

import math
import sys
from collections.abc import Callable, Mapping
from random import Random

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.native.compiler import compile_kernels
from heedful.native.floats import PackedFloats
from heedful.native.int8 import Int8Linear, Rows, padded
from heedful.native.library import (
    ACTIVATIONS,
    ATTEND,
    CHUNK,
    EMBED,
    GATE,
    MEMORY,
    NORM,
    NORMALISE,
    PACKED,
    ROTATE,
    STEP,
    STORE,
    Frame,
    Library,
    Op,
    open_library,
)
from heedful.nn.attention.relative_positions import Rotary
from heedful.nn.layers.feedforward import ACTIVATIONS as EQUATIONS

APART = 16
Check = Callable[[Library, Random], None]


def drawn(chance: Random, *shape: int) -> Tensor:
    """Numbers of a seed, now and then with a row of zeros or of large numbers."""
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(chance.randrange(1 << 30)))
    if len(shape) == 2 and shape[0] and chance.random() < 0.2:
        x[chance.randrange(shape[0])] *= chance.choice([0.0, 1e-30, 1e8])
    return x


def put(rows: int, width: int, x: Tensor | None = None) -> Tensor:
    """A buffer of rows, apart from each other, and with x in its first columns."""
    buffer = torch.zeros(rows, width + APART)
    if x is not None:
        buffer[:, : x.shape[1]] = x
    return buffer


def frame_of(buffers: Mapping[int, Tensor], rows: int, **own: int) -> Frame:
    frame = Frame(rows=rows, **({"beams": 1} | own))
    for number, buffer in buffers.items():
        frame.buffer[number], frame.stride[number] = buffer.data_ptr(), buffer.stride(0)
    return frame


def close(ours: Tensor, theirs: Tensor, within: float = 2e-5, scale: float = 0.0) -> None:
    scale = max(scale, float(theirs.abs().amax()), 1e-30)
    assert bool((ours.isfinite() == theirs.isfinite()).all())
    apart = float(((ours - theirs).abs() / scale).nan_to_num(0, 0, 0).max())
    assert apart < within, apart


def run(kernels: Library, frame: Frame, *ops: Op) -> None:
    kernels.run((Op * len(ops))(*ops), frame)


def linear(kernels: Library, chance: Random) -> None:
    """y = s y + act(x W^T + b)"""
    rows, n, k = chance.randint(1, 70), chance.randint(1, 150), chance.randint(1, 200)
    weight, bias = drawn(chance, n, k), drawn(chance, n) if chance.random() < 0.7 else None
    act = chance.choice([*ACTIVATIONS])
    factor = chance.choice([None, 1.0, -0.7])
    module, x = Int8Linear(weight, bias), drawn(chance, rows, k)
    skipped = drawn(chance, rows, n)
    source, target = put(rows, padded(k), x), put(rows, padded(n), skipped)
    memory, frame = Rows(rows, padded(k)), frame_of({0: source, 1: target}, rows)
    memory.give_to(frame)
    run(kernels, frame, module.packed.op(0, 1, ACTIVATIONS[act], -1 if factor is None else 1, factor or 0.0))
    product = module._by_equation(x)
    y = EQUATIONS[act](product) if act != "none" else product
    expected = y if factor is None else y + factor * skipped
    sizes = x.abs().amax(1) * weight.abs().sum(1).amax()  # rows of large numbers have large errors
    for row in range(rows):
        close(target[row, :n], expected[row], 2e-6, max(float(sizes[row]), float(product[row].abs().max())))
    assert not target[:, padded(n) :].any(), "columns apart were written"


def floats(kernels: Library, chance: Random) -> None:
    """y = s y + act(a (x W^T + b)) in float32, each row as it is alone."""
    rows, n, k = chance.randint(1, 40), chance.randint(1, 150), chance.randint(1, 100)
    weight, bias = drawn(chance, n, k), drawn(chance, n) if chance.random() < 0.7 else None
    act, factor, gain = chance.choice([*ACTIVATIONS]), chance.choice([None, 1.0, -0.7]), chance.choice([1.0, 0.3])
    x, skipped, packed = drawn(chance, rows, k), drawn(chance, rows, n), PackedFloats.of(weight, bias, gain)
    source, target = put(rows, padded(k), x), put(rows, padded(n), skipped)
    alone = target.clone()
    op = packed.op(0, 1, ACTIVATIONS[act], -1 if factor is None else 1, factor or 0.0)
    run(kernels, frame_of({0: source, 1: target}, rows), op)
    exact = gain * (x.double() @ weight.double().T + (0 if bias is None else bias.double()))
    y = EQUATIONS[act](exact) if act != "none" else exact
    expected = y if factor is None else y + factor * skipped
    sizes = x.double().abs() @ weight.double().abs().T + (0 if bias is None else bias.double().abs()) + skipped.abs()
    assert bool(((target[:, :n] - expected).abs() <= 2e-6 * sizes + 1e-35).all())
    assert not target[:, padded(n) :].any(), "columns apart were written"
    row = chance.randrange(rows)
    run(kernels, frame_of({0: source[row:], 1: alone[row:]}, 1), op)
    assert torch.equal(alone[row, :n], target[row, :n])


def embed(kernels: Library, chance: Random) -> None:
    """y = W[token] s + P(position), of rows whose sentences have different positions; no row beyond the tables."""
    sentences, beams, n, words, places = (chance.randint(1, most) for most in (4, 4, 100, 30, 20))
    rows, factor, table, added = sentences * beams, chance.random(), drawn(chance, words, n), drawn(chance, places, n)
    tokens = torch.tensor([chance.randrange(-3, words + 3) for _ in range(rows)])
    positions = torch.tensor([chance.randrange(places + 2) for _ in range(sentences)], dtype=torch.int32)
    placed, target = chance.random() < 0.7, put(rows, padded(n))
    op = Op(kind=EMBED, out=0, n=n, heads=words, rotated=places, factor=factor, w=table.data_ptr())
    op.waves = added.data_ptr() if placed else None
    frame = frame_of({0: target}, rows, beams=beams)
    frame.tokens, frame.position = tokens.data_ptr(), positions.data_ptr()
    run(kernels, frame, op)
    seen = tokens.where((tokens >= 0) & (tokens < words), 0)
    where = positions.where(positions < places, 0).long().repeat_interleave(beams)
    expected = table[seen] * factor + (added[where] if placed else 0)
    for row in range(rows):
        close(target[row, :n], expected[row], scale=float(table[seen[row]].abs().max()))
    assert not target[:, n:].any()


def normalise(kernels: Library, chance: Random) -> None:
    """The normaliser as an operation has the bits that it has as a function, in one piece of a row or in several."""
    rows, size = chance.randint(1, 4), chance.choice([chance.randint(1, 200), chance.randint(CHUNK - 3, 3 * CHUNK)])
    source = put(rows, padded(size), drawn(chance, rows, size))
    found, frame = torch.zeros(2, rows, 1), frame_of({5: source}, rows)
    parts = torch.empty(rows, 2, -(-size // CHUNK))
    frame.greatest, frame.log_sum, frame.parts = found[0].data_ptr(), found[1].data_ptr(), parts.data_ptr()
    run(kernels, frame, Op(kind=NORMALISE, in_=5, n=size))
    x = source[:, :size]
    assert torch.equal(found, torch.stack(kernels.normaliser(x)))
    assert torch.equal(found[0], x.amax(1, keepdim=True))
    close(found[1], (x.double() - x.amax(1, keepdim=True)).exp().sum(1, keepdim=True).log().float(), 1e-4)


def norm(kernels: Library, chance: Random) -> None:
    """Layer norm, or by the root mean square."""
    rows, n, squares = chance.randint(1, 20), chance.randint(1, 200), chance.random() < 0.5
    x, gain, bias = drawn(chance, rows, n), drawn(chance, n), drawn(chance, n)
    source, target = put(rows, padded(n), x), put(rows, padded(n))
    more = (0, padded(n) - n)
    wide_gain, wide_bias = F.pad(gain, more), F.pad(bias, more)
    op = Op(kind=NORM, in_=0, out=1, n=n, k=padded(n), mode=squares, eps=1e-5)
    op.scale, op.bias = wide_gain.data_ptr(), wide_bias.data_ptr()
    run(kernels, frame_of({0: source, 1: target}, rows), op)
    expected = F.rms_norm(x, (n,), gain, 1e-5) + bias if squares else F.layer_norm(x, (n,), gain, bias, 1e-5)
    for row in range(rows):
        close(target[row, :n], expected[row], 1e-3 if n < 4 else 1e-4)  # variances of a few large numbers cancel
    assert not target[:, n:].any()


def gate(kernels: Library, chance: Random) -> None:
    rows, n = chance.randint(1, 9), 64 * chance.randint(1, 3)
    x, act = drawn(chance, rows, 2 * n), chance.choice([*EQUATIONS])
    source, target = put(rows, 2 * n, x), put(rows, n)
    run(kernels, frame_of({0: source, 1: target}, rows), Op(kind=GATE, in_=0, out=1, n=n, act=ACTIVATIONS[act]))
    expected = EQUATIONS[act](x[:, :n]) * x[:, n:]
    for row in range(rows):
        close(target[row, :n], expected[row], scale=float((x[row, :n] * x[row, n:]).abs().max()))


def rotate(kernels: Library, chance: Random) -> None:
    rows, width = chance.randint(1, 9), 2 * chance.randint(1, 16)
    heads, groups, key = 2, 1, -(-width // 16) * 16
    x, rotary = drawn(chance, rows, (heads + groups) * key), Rotary(width)
    positions = torch.tensor([chance.randrange(50) for _ in range(rows)], dtype=torch.int32)
    buffer, waves = put(rows, x.shape[1], x), rotary.waves(torch.arange(50), 50).contiguous()
    frame = frame_of({0: buffer}, rows)
    frame.position = positions.data_ptr()
    op = Op(kind=ROTATE, in_=0, mode=PACKED, heads=heads, groups=groups, key=key, rotated=width)
    op.waves = waves.data_ptr()
    run(kernels, frame, op)
    parts = x.view(rows, heads + groups, key)
    turned, _ = rotary.encode(parts[..., :width], parts[..., :width], positions.long(), 50)
    expected = torch.cat([turned, parts[..., width:]], dim=2).flatten(1)
    close(buffer[:, : x.shape[1]], expected)


def _attended(q_HD: Tensor, k_TGD: Tensor, v_TGU: Tensor, factor: float) -> Tensor:
    """One row, head by head."""
    shared = len(q_HD) // k_TGD.shape[1]
    read = []
    for head, q_D in enumerate(q_HD):
        keys, values = k_TGD[:, head // shared].double(), v_TGU[:, head // shared].double()
        read.append((keys @ q_D.double() * factor).softmax(0) @ values)
    return torch.cat(read).float()


def attend(kernels: Library, chance: Random) -> None:
    """The three kinds of attention, next to a loop over rows and heads."""
    groups = chance.randint(1, 3)
    heads, key, value = groups * chance.randint(1, 3), 16 * chance.randint(1, 5), 16 * chance.randint(1, 9)
    sizes = {"heads": heads, "groups": groups, "key": key, "value": value}
    queries, keys, width = heads * key, groups * key, heads * key + groups * (key + value)
    factor = 1 / math.sqrt(key)
    radius = chance.choice([-1, -1, 0, 2, 5])
    op = Op(kind=ATTEND, in_=2, out=3, factor=factor, radius=radius, **sizes)
    threads = torch.get_num_threads()

    def split(row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = row[:width].split([queries, keys, groups * value])
        return q.view(heads, key), k.view(groups, key), v.view(groups, value)

    mode = chance.choice([STEP, MEMORY, PACKED])
    op.mode = mode
    sentences, beams = chance.randint(1, 4), chance.randint(1, 4)
    if mode == PACKED:
        lengths = [chance.randint(1, 40) for _ in range(sentences)]
        rows, bound = sum(lengths), max(lengths)
        op.causal = chance.random() < 0.5
    else:
        rows, bound = sentences * beams, 64
    wide, read = put(rows, width, drawn(chance, rows, width)), put(rows, heads * value)
    frame = frame_of({2: wide, 3: read}, rows, beams=1 if mode == PACKED else beams, bound=bound)
    scores, places = torch.empty(threads, -(-bound // 16) * 16), torch.empty(threads, bound, dtype=torch.int32)
    frame.scores, frame.places = scores.data_ptr(), places.data_ptr()
    kept: list[Tensor] = []

    def whole(numbers: list[int]) -> int:
        kept.append(torch.tensor(numbers, dtype=torch.int32))
        return kept[-1].data_ptr()

    expected = []
    if mode == PACKED:
        starts = [sum(lengths[:index]) for index in range(sentences)]
        frame.first = whole([start for start, length in zip(starts, lengths, strict=True) for _ in range(length)])
        frame.count = whole([length for length in lengths for _ in range(length)])
        op.key_row = op.value_row = wide.stride(0)
        for start, length in zip(starts, lengths, strict=True):
            for r in range(start, start + length):
                seen = range(start, r + 1 if op.causal else start + length)
                near = [t for t in seen if radius < 0 or abs(t - r) <= radius]
                parts = [split(wide[t]) for t in near]
                k, v = torch.stack([part[1] for part in parts]), torch.stack([part[2] for part in parts])
                expected.append(_attended(split(wide[r])[0], k, v, factor))
        run(kernels, frame, op)
    elif mode == MEMORY:
        op.radius = -1
        lengths = [chance.randint(1, bound) for _ in range(sentences)]
        starts = [sum(lengths[:index]) for index in range(sentences)]
        order = chance.sample(range(sentences), sentences)
        memory = drawn(chance, sum(lengths), groups * (key + value) + APART)
        op.keys, op.values = memory.data_ptr(), memory.data_ptr() + 4 * keys
        op.key_row = op.value_row = memory.stride(0)
        frame.first, frame.count, frame.slot = whole(starts), whole(lengths), whole(order)
        for r in range(rows):
            slot = order[r // beams]
            mine = memory[starts[slot] : starts[slot] + lengths[slot]]
            k, v = mine[:, :keys].unflatten(1, (groups, key)), mine[:, keys : keys + groups * value]
            expected.append(_attended(split(wide[r])[0], k, v.unflatten(1, (groups, value)), factor))
        run(kernels, frame, op)
    else:
        room = chance.randint(2, bound)
        slots = sentences + chance.randint(0, 2)
        k_cache, v_cache = (
            drawn(chance, slots * room * beams, keys),
            drawn(chance, slots * room * beams, groups * value),
        )
        op.keys, op.values, op.key_row, op.value_row = k_cache.data_ptr(), v_cache.data_ptr(), keys, groups * value
        order = chance.sample(range(slots), sentences)
        positions = [chance.randrange(room) for _ in range(sentences)]
        draw = torch.Generator().manual_seed(chance.randrange(1 << 30))
        ancestors = torch.randint(beams, (rows, room), generator=draw).to(torch.int16)
        frame.slot, frame.position, frame.room = whole(order), whole(positions), room
        frame.ancestors = ancestors.data_ptr()
        before = ancestors.clone()
        run(kernels, frame, op)
        for r in range(rows):
            slot, t = order[r // beams], positions[r // beams]
            q, own_k, own_v = split(wide[r])
            first = max(0, t - radius) if radius >= 0 else 0
            entries = [(slot * room + p) * beams + int(before[r, p]) for p in range(first, t)]
            k = torch.cat([k_cache[entries].unflatten(1, (groups, key)), own_k.unsqueeze(0)])
            v = torch.cat([v_cache[entries].unflatten(1, (groups, value)), own_v.unsqueeze(0)])
            expected.append(_attended(q, k, v, factor))
            assert int(ancestors[r, t]) == r % beams
            assert torch.equal(k_cache[(slot * room + t) * beams + r % beams], own_k.flatten())
    for row, theirs in zip(read, expected, strict=True):
        close(row[: heads * value], theirs, 1e-4)


def store(kernels: Library, chance: Random) -> None:
    """Keys and values of prompts go to the first row of their positions."""
    rows, room, beams, slots, groups, key, value = chance.randint(1, 9), 12, 3, 2, 2, 16, 32
    heads = 2
    x = drawn(chance, rows, heads * key + groups * (key + value))
    places = chance.sample([(slot, position) for slot in range(slots) for position in range(room)], rows)
    k_cache, v_cache = (
        torch.zeros(slots * room * beams, groups * key),
        torch.zeros(slots * room * beams, groups * value),
    )
    wide = put(rows, x.shape[1], x)
    frame = frame_of({2: wide}, rows, beams=beams, room=room)
    slot, position = (torch.tensor(part, dtype=torch.int32) for part in zip(*places, strict=True))
    frame.slot, frame.position = slot.data_ptr(), position.data_ptr()
    op = Op(kind=STORE, in_=2, heads=heads, groups=groups, key=key, value=value)
    op.keys, op.values, op.key_row, op.value_row = k_cache.data_ptr(), v_cache.data_ptr(), groups * key, groups * value
    run(kernels, frame, op)
    entries = [(slot * room + position) * beams for slot, position in places]
    k, v = x[:, heads * key :].split([groups * key, groups * value], dim=1)
    assert torch.equal(k_cache[entries], k)
    assert torch.equal(v_cache[entries], v)
    assert int((k_cache != 0).any(1).sum()) <= rows


def rank(kernels: Library, chance: Random) -> None:
    """The normaliser, and the best of each row."""
    rows, size = chance.randint(1, 9), chance.randint(1, 400)
    x = drawn(chance, rows, size + chance.randint(0, 5))[:, :size]
    if chance.random() < 0.5:
        x = x.round()  # many are equal
    if chance.random() < 0.3:
        x[:, chance.randrange(size) :] = -math.inf
        x[:, 0] = 1.0
    count = chance.randint(1, min(size, 40))
    best, ids = kernels.best(x, count)
    expected = x.sort(dim=1, descending=True, stable=True)
    assert torch.equal(best, expected.values[:, :count])
    assert torch.equal(x.gather(1, ids), best)
    assert all(len(set(row.tolist())) == count for row in ids)
    finite = best.isfinite()
    assert torch.equal(ids[finite], expected.indices[:, :count][finite]), "of equal ones the first"
    greatest, log_sum = kernels.normaliser(x)
    assert torch.equal(greatest, x.amax(1, keepdim=True))
    close(log_sum, (x.double() - greatest).exp().sum(1, keepdim=True).log().float(), 1e-4)


CHECKS: Mapping[str, Check] = {
    "linear": linear, "norm": norm, "gate": gate, "rotate": rotate, "attend": attend, "store": store, "rank": rank,
    "floats": floats, "embed": embed, "normalise": normalise,
}  # fmt: skip


def check(kernels: Library, name: str, seed: int) -> None:
    """Run one random operation; the seed decides all of it."""
    before = torch.get_num_threads()
    chance = Random(f"{name}:{seed}")
    torch.set_num_threads(chance.choice([1, 1, 2, 3]))
    try:
        CHECKS[name](kernels, chance)
    except AssertionError as error:
        raise AssertionError(f"{name}:{seed}: {error}") from error
    finally:
        torch.set_num_threads(before)


def main() -> None:
    count, first, *flags = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    kernels = open_library(compile_kernels(tuple(flags)))
    names = [*CHECKS]
    for seed in range(first, first + count):
        check(kernels, names[seed % len(names)], seed)
    print(f"{count} programs by {kernels.compiled.instructions.title}")


if __name__ == "__main__":
    main()
