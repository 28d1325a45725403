"""The benchmark of inference on a CPU: it runs, it finds the fastest settings, and both sides have the same network."""

import math
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from benchmarks.cpu import decode_cpu, decode_cpu_convert, decode_cpu_engines, decode_cpu_parts, decode_cpu_peers
from benchmarks.cpu.decode_cpu_engines import Answer, EngineError

from heedful.base.packed import Packed
from heedful.base.processes import child_environment, run_module
from heedful.config.model.transformer import TransformerModel
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.models.from_recipe.network import build_model
from heedful.tasks.translate.lexicon import Lexicon

SOURCES = [[5, 17, 9], [31, 4, 4, 20, 11], [8]]


@pytest.mark.parametrize("part", ["bert", pytest.param("gpt", marks=pytest.mark.wide)])
def test_the_parts_that_need_no_peer_but_transformers_run(part: str) -> None:
    command = run_module("benchmarks.cpu.decode_cpu", "--tiny", "--parts", part)
    done = subprocess.run(command, env=child_environment("benchmarks"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ratio_{part}_2" in done.stdout


@pytest.mark.parametrize(("installed", "why"), [(None, "is not installed"), ("4.6.1", "4.6.1 is too old")])
def test_what_is_missing_is_named_with_the_way_to_install_it(
    installed: str | None, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version(package: str) -> str:
        if installed is None:
            raise PackageNotFoundError(package)
        return installed

    monkeypatch.setattr(decode_cpu_peers, "version", version)
    monkeypatch.setattr(sys, "argv", ["decode_cpu", "--tiny", "--parts", "speed"])
    with pytest.raises(SystemExit):
        decode_cpu.main()
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith(f'CTranslate2 {why}: pip install "ctranslate2>=4.8"')


class _Timed:
    """An engine that takes as long as a table says."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def ask(self, case: Any) -> Answer:
        if self.seconds is None:
            raise EngineError("this machine does not have it")
        return Answer(self.seconds * case, 0.0, None)


def test_the_fastest_setting_is_chosen_and_what_a_machine_does_not_have_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {("int8", "MKL", ""): 3.0, ("int8", "oneDNN", ""): 2.0, ("int8_float32", "oneDNN", ""): 1.0}

    def start(maker: str, threads: int, setting: decode_cpu_peers.Setting, **given: object) -> _Timed:
        return _Timed(seconds.get((setting.compute_type, setting.backend, setting.instructions)))

    monkeypatch.setattr(decode_cpu_peers, "start", start)
    choice = decode_cpu_peers.Choice("an engine", 1, {"work": (2.0, 1)}, lambda setting: {})
    choice.try_int8()
    assert choice.best["work"].title == "int8_float32, oneDNN"
    assert choice.seconds["work"] == {"int8, MKL": 6.0, "int8, oneDNN": 4.0, "int8_float32, oneDNN": 2.0}
    assert [failed.partition(":")[0] for failed in choice.failed] == [
        "int8, packed MKL", "int8_bfloat16, oneDNN", "int8_float32, oneDNN, its own kernels with AVX2",
    ]  # fmt: skip


def test_with_more_threads_only_settings_are_tried_that_were_nearly_the_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {"MKL": 1.0, "packed MKL": 1.2, "oneDNN": 2.0}
    monkeypatch.setattr(
        decode_cpu_peers, "start", lambda maker, threads, setting, **given: _Timed(seconds[setting.backend])
    )
    one, two = (decode_cpu_peers.Choice("an engine", threads, {"work": (1.0, 1)}, lambda _: {}) for threads in (1, 2))
    one.try_out(decode_cpu_peers.Setting("int8", backend) for backend in seconds)
    assert [setting.title for setting in one.near()] == ["int8, MKL", "int8, packed MKL"]
    two.try_threads(one.near())
    assert [*two.seconds["work"]] == ["int8, MKL", "int8, packed MKL", "int8, MKL, threads that spin"]


def test_no_round_but_the_first_begins_when_the_minutes_are_over() -> None:
    asked: list[Any] = []

    class Waiting(_Timed):
        def wait(self) -> float:
            return 0.0

        def ask(self, case: Any, calls: int = 1) -> Answer:
            asked.append(case)
            return super().ask(1.0)

    engines: dict[str, Any] = {"one": Waiting(1.0), "other": Waiting(2.0)}
    turns: dict[str, Any] = {"case": "work", "rounds": 3, "calls": 1, "warm": "before"}
    over, going = (decode_cpu_engines.alternate(engines, **turns, until=until) for until in (0.0, math.inf))
    assert [len(answers) for answers in (over["one"], over["other"], going["one"], going["other"])] == [1, 1, 3, 3]
    assert asked[:4] == ["before", "before", "work", "work"]


def test_a_vocabulary_map_has_the_tokens_of_the_lexicon(tmp_path: Path) -> None:
    tokens, ends, frequent = (np.array(part) for part in ([7, 2, 9], [0, 0, 0, 0, 0, 2, 3], [4, 5]))
    lexicon = Lexicon(tokens, ends, frequent)
    assert [*decode_cpu_convert._map_of(lexicon)] == ["\t4 5", "5\t7 </s>", "6\t9"]
    ctranslate2 = pytest.importorskip("ctranslate2")
    torch.manual_seed(0)
    network = build_model(TransformerModel(width=16, heads=2, layers=1, inner=32, tie="none"), 7, 40).eval()
    decode_cpu_convert.write_translator(network, tmp_path / "model", None, lexicon)
    translator = ctranslate2.Translator(str(tmp_path / "model"), device="cpu", intra_threads=1)
    for source, listed in ((["5"], {"4", "5", "7"}), (["6"], {"4", "5", "9"}), (["4"], {"4", "5"})):
        (found,) = translator.translate_batch(
            [source], use_vmap=True, beam_size=2, num_hypotheses=2, min_decoding_length=8, max_decoding_length=8,
            disable_unk=True, suppress_sequences=[["<s>"]],
        )  # fmt: skip
        assert {piece for hypothesis in found.hypotheses for piece in hypothesis} <= listed


def test_tokens_count_until_the_first_difference() -> None:
    assert decode_cpu_parts.same_start([[1, 2, 3, 9]], [[1, 2, 3, 8]]) == 1.0  # the last one does not count
    assert decode_cpu_parts.same_start([[1, 2, 3, 9], [5, 6, 7, 9]], [[1, 4, 3, 9], [5, 6, 7, 9]]) == 4 / 6


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"norm": "pre", "activation": "gelu", "tie": "none"},
        {"norm": "pre", "activation": "gelu_tanh", "positions": "learned", "output_bias": True},
        {"tie": "decoder", "activation": "silu", "bias": False, "embedding_scale": False, "decoder_layers": 1},
    ],
    ids=lambda keys: ",".join(keys) or "usual",
)
def test_a_converted_translator_gives_targets_the_same_probability(keys: Mapping[str, Any], tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    torch.manual_seed(0)
    network = build_model(TransformerModel(width=16, heads=2, layers=2, inner=32, **keys), 40, 40).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)  # no bias is zero, no norm's weight is one
    decode_cpu_convert.write_translator(network, tmp_path / "model", None)
    translator = ctranslate2.Translator(str(tmp_path / "model"), device="cpu", compute_type="float32", intra_threads=1)
    for source, target in zip(SOURCES, reversed(SOURCES), strict=True):
        (scored,) = translator.score_batch([[*map(str, source), "</s>"]], [[*map(str, target)]])
        with torch.no_grad():
            log_p = network(Packed.of([[*source, END]]), Packed.of([[BEGIN, *target]])).log_softmax(-1)
        expected = log_p[torch.arange(len(target) + 1), torch.tensor([*target, END])]
        torch.testing.assert_close(torch.tensor(scored.log_probs), expected, rtol=1e-4, atol=1e-4)


def test_what_has_no_counterpart_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    table = TransformerModel(width=16, heads=2, layers=1, inner=32, positions="rope")
    with pytest.raises(ValueError, match="only embeddings with positions that are added to them are converted"):
        decode_cpu_convert.write_translator(build_model(table, 40, 40), tmp_path / "model", None)
