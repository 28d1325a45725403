"""A linear chain against its definition: every path of every sentence, one by one."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.examples import examples
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.base.label_schemes import SchemeName, allowed_transitions, first_forbidden
from heedful.base.packed import IGNORED, Layout
from heedful.nn.crf import LinearChain, _Chain, transition_matrix
from heedful.nn.kernels import without_kernels

LENGTHS = [3, 0, 4, 1, 2]
BIO = ["O", "B-X", "I-X"]
BIOES = ["E-X", "O", "B-X", "I-X", "S-X", "B-Y", "E-Y"]


def drawn_chain(labels: int, seed: int = 0, allowed: Tensor | None = None) -> LinearChain:
    torch.manual_seed(seed)
    chain = LinearChain(labels, allowed).double()
    for parameter in chain.parameters():
        torch.nn.init.normal_(parameter)
    return chain


def rules(labels: list[str], scheme: SchemeName) -> Tensor:
    return transition_matrix(allowed_transitions(labels, scheme))


def paths(chain: LinearChain, x: Tensor) -> dict[tuple[int, ...], Tensor]:
    """The score of every allowed path of one sentence, by the definition."""
    count, scores, allowed = x.shape[1], {}, chain.allowed
    for path in itertools.product(range(count), repeat=len(x)):
        ends = [count, *path, count]
        if path and allowed is not None and not all(allowed[i, j] for i, j in itertools.pairwise(ends)):
            continue
        score = x.new_zeros(())
        if path:
            score = chain.start[path[0]] + chain.end[path[-1]] + sum(x[i, label] for i, label in enumerate(path))
            score = score + sum(chain.transitions[i, j] for i, j in itertools.pairwise(path))
        scores[path] = score
    return scores


def loss_over_paths(chain: LinearChain, x: Tensor, truth: Tensor, lengths: list[int]) -> Tensor:
    total = x.new_zeros(())
    for sentence, labels in zip(x.split(lengths), truth.split(lengths), strict=True):
        scores = paths(chain, sentence)
        if tuple(labels.tolist()) not in scores:  # forbidden: as if all were allowed
            free = LinearChain(x.shape[1]).double()
            free.start, free.transitions, free.end = chain.start, chain.transitions, chain.end
            scores = paths(free, sentence)
        total = total + torch.stack(list(scores.values())).logsumexp(0) - scores[tuple(labels.tolist())]
    return total


def loss_and_gradients(loss: Tensor, chain: LinearChain, x: Tensor) -> list[Tensor]:
    return [loss, *torch.autograd.grad(loss, [x, *chain.parameters()])]


@pytest.mark.parametrize("labels", [1, 2, 3])
@pytest.mark.parametrize("bound", [4, 6])  # of a static shape: longer than any sentence
def test_the_loss_and_its_gradients_are_those_of_all_paths(labels: int, bound: int) -> None:
    chain, layout = drawn_chain(labels), replace(Layout.of(LENGTHS), bound=bound)
    x = torch.randn(10, labels, dtype=torch.float64, requires_grad=True)
    truth = torch.randint(labels, (10,))
    found = loss_and_gradients(chain.loss(x, truth, layout), chain, x)
    expected = loss_and_gradients(loss_over_paths(chain, x, truth, LENGTHS), chain, x)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("names", "scheme"), [(BIO, "BIO"), (BIOES, "BIOES")])
def test_the_loss_sums_over_allowed_paths_only_and_a_forbidden_truth_keeps_it_finite(
    names: list[str], scheme: SchemeName
) -> None:
    chain, lengths = drawn_chain(len(names), allowed=rules(names, scheme)), [2, 3, 1, 2]
    x = torch.randn(8, len(names), dtype=torch.float64, requires_grad=True)
    begin, inside, end, outside = (names.index(n) for n in ("B-X", "I-X", names[-1] if scheme == "BIO" else "E-X", "O"))
    truth = torch.tensor([outside, inside, begin, inside, end, outside, begin, end])
    found = loss_and_gradients(chain.loss(x, truth, Layout.of(lengths)), chain, x)
    expected = loss_and_gradients(loss_over_paths(chain, x, truth, lengths), chain, x)
    for one, other in zip(found, expected, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("labels", [1, 3])
def test_the_best_path_and_the_probabilities_are_those_of_all_paths(labels: int) -> None:
    chain, layout = drawn_chain(labels), replace(Layout.of(LENGTHS), bound=5)
    x = torch.randn(10, labels, dtype=torch.float64)
    best, marginals = chain.best(x, layout), chain.marginals(x, layout)
    found = zip(x.split(LENGTHS), best.labels_N.split(LENGTHS), best.scores_B, marginals.split(LENGTHS), strict=True)
    for sentence, path, score, of_words in found:
        scores = {each: score.detach() for each, score in paths(chain, sentence).items()}
        assert tuple(path.tolist()) == max(scores, key=lambda each: float(scores[each]))
        assert float(score) == pytest.approx(float(scores[tuple(path.tolist())]))
        total = torch.stack(list(scores.values())).logsumexp(0)
        for word, label in itertools.product(range(len(sentence)), range(labels)):
            share = sum(float((scores[each] - total).exp()) for each in scores if each[word] == label)
            assert float(of_words[word, label]) == pytest.approx(share)


@examples(60)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1.0, 100.0, 1e6]), scheme=st.sampled_from(["BIO", "BIOES"]))
def test_the_best_path_never_has_a_forbidden_transition(seed: int, scale: float, scheme: SchemeName) -> None:
    names = BIO if scheme == "BIO" else BIOES
    chain, lengths = drawn_chain(len(names), seed, rules(names, scheme)).float(), [1, 5, 9, 2]
    labels = chain.best(scale * torch.randn(17, len(names)), Layout.of(lengths)).labels_N
    for path in labels.split(lengths):
        assert first_forbidden([names[label] for label in path.tolist()], scheme) is None


def test_probabilities_of_forbidden_labels_are_0() -> None:
    chain = drawn_chain(3, allowed=rules(BIO, "BIO"))
    p = chain.marginals(torch.randn(4, 3, dtype=torch.float64), Layout.of([1, 3]))
    assert p[0, 2] == p[1, 2] == 0  # no sentence starts with I-X
    torch.testing.assert_close(p.sum(1), torch.ones(4, dtype=torch.float64))


def test_a_new_chain_is_the_cross_entropy_of_each_word() -> None:
    x, truth = torch.randn(7, 4), torch.tensor([0, 3, 1, 1, 2, 0, 2])
    loss = LinearChain(4).loss(x, truth, Layout.of([5, 2]))
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(x, truth, reduction="sum"))


def test_a_sentence_ends_before_a_label_that_is_ignored() -> None:
    chain, x = drawn_chain(3), torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    filled = chain.loss(x, torch.tensor([0, 2, IGNORED, IGNORED, IGNORED, IGNORED]), Layout.of([3, 2, 1]))
    alone = chain.loss(x[:2], torch.tensor([0, 2]), Layout.of([2]))
    torch.testing.assert_close(filled, alone)
    torch.testing.assert_close(*(torch.autograd.grad(loss, x)[0] for loss in (filled, alone)))


@pytest.mark.parametrize("labels", [1, 3, 17])
def test_the_kernel_sums_as_the_reference_does(labels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not installed here")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # on the CPU Triton interprets the kernel
    allowed = torch.ones(labels + 1, labels + 1, dtype=torch.bool)
    if labels > 1:
        allowed[1, 0] = False
    chain, layout = drawn_chain(labels, allowed=allowed).float().to(device), replace(Layout.of(LENGTHS), bound=6)
    layout, truth = layout.to(device), torch.tensor([0, 0, 0, 1, 0, 1, IGNORED, 0, 0, 0]).clamp(max=labels - 1)
    x = torch.randn(10, labels, device=device, requires_grad=True)
    with without_kernels():
        expected = loss_and_gradients(chain.loss(x, truth.to(device), layout), chain, x)
    monkeypatch.setattr("heedful.nn.crf._Chain.log_partition", _Chain.log_partition_by_kernel)
    found = loss_and_gradients(chain.loss(x, truth.to(device), layout), chain, x)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_neighbours_do_not_matter() -> None:
    chain, x, truth = drawn_chain(3), torch.randn(9, 3, dtype=torch.float64), torch.randint(3, (9,))
    parts = zip(x.split([4, 5]), truth.split([4, 5]), strict=True)
    alone = [chain.loss(*part, Layout.of([len(part[0])])) for part in parts]
    torch.testing.assert_close(chain.loss(x, truth, Layout.of([4, 5])), torch.stack(alone).sum())


@pytest.mark.parametrize("scale", [30.0, 600.0])
def test_sure_scores_of_a_label_that_is_never_reached_keep_all_values_finite(scale: float) -> None:
    """I-Y cannot occur without B-Y, however sure the scores are of it."""
    names, layout = ["O", "B-X", "I-X", "I-Y"], Layout.of([80, 80])
    chain = LinearChain(4, rules(names, "BIO"))
    x = torch.zeros(160, 4)
    x[:, 3] = scale
    x.requires_grad_()
    truth = torch.cat([torch.full((80,), 3), torch.zeros(80, dtype=torch.int64)])  # forbidden, and allowed
    loss, *gradients = loss_and_gradients(chain.loss(x, truth, layout), chain, x)
    allowed = [1, 1]  # the Fibonacci numbers: every second one is the number of allowed paths of O, B-X and I-X
    while len(allowed) < 2 * 80 + 1:
        allowed.append(allowed[-1] + allowed[-2])
    assert float(loss.detach()) == pytest.approx(math.log(allowed[-1]), rel=1e-3)
    assert all(gradient.isfinite().all() for gradient in gradients)
    p = chain.marginals(x, layout)
    assert not p[:, 3].any()
    torch.testing.assert_close(p.sum(1), torch.ones(160))


def test_16_bit_scores_of_a_long_sentence_are_summed_in_32_bits() -> None:
    chain, x = drawn_chain(5).float(), torch.randn(400, 5).bfloat16()
    truth, layout = torch.randint(5, (400,)), Layout.of([400])
    found, exact = chain.loss(x, truth, layout), drawn_chain(5).loss(x.double(), truth, layout)
    assert found.dtype == torch.float32
    assert float(found.detach()) == pytest.approx(float(exact.detach()), rel=1e-5)


def test_a_batch_without_words_has_no_loss_and_no_labels() -> None:
    chain, layout, x = LinearChain(3), Layout.of([0, 0]), torch.zeros(0, 3, requires_grad=True)
    loss = chain.loss(x, torch.zeros(0, dtype=torch.int64), layout)
    loss.backward()
    assert float(loss.detach()) == 0
    assert chain.best(x, layout).labels_N.tolist() == []
    assert chain.best(x, layout).scores_B.tolist() == [0, 0]
    assert chain.marginals(x, layout).shape == (0, 3)


def test_rules_without_a_path_for_every_length_are_refused() -> None:
    with refuses("...some lengths would have no path...", ValueError):
        LinearChain(2, rules(["B-X", "E-X"], "BIOES"))
    with refuses("...transitions of shape (4, 4) for 2 labels...", ValueError):
        LinearChain(2, rules(BIO, "BIO"))


def test_only_learned_scores_are_saved() -> None:
    assert list(LinearChain(3, rules(BIO, "BIO")).state_dict()) == ["start", "transitions", "end"]
    assert math.prod(LinearChain(3).transitions.shape) == 9
