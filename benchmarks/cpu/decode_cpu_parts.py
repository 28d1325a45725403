"""The parts of benchmarks.cpu.decode_cpu, which says what they are."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cpu import decode_cpu_convert as convert
from benchmarks.cpu.decode_cpu_engines import Engine, alternate
from benchmarks.cpu.decode_cpu_peers import BACKENDS, Choice, Setting, start, why_no_ctranslate2
from benchmarks.cpu.decode_cpu_work import LENGTH, Scale, language_model, random_ids, translator
from benchmarks.gpu import decode_gpu
from benchmarks.shared.gpu_work import Results
from benchmarks.shared.other_work import QUIET, watch_others

from heedful.base.files import write_json
from heedful.data.corpora.formats.lines import read_lines

OURS, CT2, HUGGING_FACE = "heedful", "ctranslate2", "transformers"
THREADS: Mapping[int, str] = {1: "", 2: "_2"}  # and what keys end in
SAME = 0.5  # share of sentences that must have the same tokens on both sides
TRIED = 200  # lines of the test set that settings are tried on
BATCH_TOKENS = (512, 1024, 4096)  # of CTranslate2's batches of texts, besides this:
FIRST_BATCH_TOKENS = 2048
PLAIN = Setting("float32", "MKL")


@dataclass(frozen=True)
class Work:
    """What all parts are given."""

    results: Results
    scale: Scale
    tiny: bool
    folder: Path  # for models and texts
    model: Path | None
    sources: Path | None
    references: Path | None
    rounds: int

    @property
    def fewer(self) -> int:
        """The number of rounds of what takes long."""
        return (self.rounds + 1) // 2

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Run a part, and record what other processes used meanwhile."""
        with self.results.part(name), self._watched(name):
            yield

    @contextmanager
    def _watched(self, name: str) -> Iterator[None]:
        with watch_others() as others:
            yield
        noted: dict[str, Any] = {"cores": round(others.cores, 3), "load_average": round(os.getloadavg()[0], 2)}
        if others.cores > QUIET:
            noted["warning"] = f"other processes used {others.cores:.2f} cores: these timings do not count"
            self.results.say(f"WARNING, {name}: {noted['warning']}")
        self.results.details.setdefault("others", {})[name] = noted

    def compare(
        self, engines: Mapping[str, Engine], ratios: Mapping[str, str], rate: str, units: float, **turns: Any
    ) -> None:
        """Time ours and its peers in turn; record ratios and rates, and the seconds of all rounds.

        `ratios` are their names, by peer; `rate` is the name of our rate, in which a star is the place of a peer's.
        `turns` are further arguments of `alternate`.
        """
        turns = {"rounds": self.rounds, "calls": 1, "warm": turns["case"], **turns}
        answers = alternate(engines, **turns)
        seconds = {name: [each.seconds for each in found] for name, found in answers.items()}
        of_cores = {name: median(each.cpu_seconds for each in found) for name, found in answers.items()}
        for name, theirs in seconds.items():
            self.results.add(**{rate.replace("*", "" if name == OURS else f"_{name}"): units / median(theirs)})
        for peer, ratio in ratios.items():
            pairs = zip(seconds[peer], seconds[OURS], strict=True)
            self.results.add(**{ratio: median(their / our for their, our in pairs)})
            self.results.say(f"{ratio}, of the time of cores: {of_cores[peer] / of_cores[OURS]:.2f}")
        noted = {"seconds": seconds, "median_cpu_seconds": of_cores}
        self.results.details.setdefault("rounds", {})[rate.replace("*", "")] = noted

    def record(self, part: str, choice: Choice) -> None:
        """Record which settings of CTranslate2 are the fastest."""
        self.results.details.setdefault("settings", {})[part] = choice.to_json()
        for name, setting in choice.best.items():
            self.results.say(f"{part}: CTranslate2's fastest setting for {name} is {setting.title}")


def write_both(write: Callable[[Any, Path, str | None], None], network: object, folder: Path) -> None:
    """Write a network as a model of CTranslate2, in float32 and in int8."""
    for name, quantization in (("float32", None), ("int8", "int8")):
        write(network, folder / name, quantization)


def stored(folder: Path, setting: Setting) -> str:
    """The model that a setting reads."""
    return str(folder / ("float32" if setting.compute_type == "float32" else "int8"))


def same(some: Sequence[Any], others: Sequence[Any]) -> float:
    """The share of outputs that are equal."""
    return sum(one == other for one, other in zip(some, others, strict=True)) / len(some)


# --- speed ------------------------------------------------------------------------------------------------------------


def measure_speed(work: Work) -> None:
    """Sentences of one length."""
    batch, folder, ids = work.scale.translator.batch, work.folder / "base", work.folder / "sources.json"
    asked = {
        "batch1": {"batch": 1, "beam": 4},
        "batch64": {"batch": batch, "beam": 4},
        "greedy64": {"batch": batch, "beam": 1},
    }
    half = asked["batch64"] | {"batch": batch // 2}  # what settings are tried on, and what warms up
    with work.part("speed_conversion"):
        write_json(ids, decode_gpu.sources(work.scale.translator, batch).tolist())
        write_both(convert.write_translator, translator(work.tiny), folder)

    def ours(threads: int, precision: str) -> Engine:
        return Engine("heedful ids", threads, precision=precision, tiny=work.tiny)

    def given(setting: Setting) -> dict[str, Any]:
        return {"folder": stored(folder, setting), "sources": str(ids), "length": LENGTH}

    def theirs(threads: int, setting: Setting) -> Engine:
        return start("ctranslate2 ids", threads, setting, **given(setting))

    def compare(name: str, key: str, us: Engine, peer: Engine, rounds: int) -> None:
        engines, ratios, units = {OURS: us, CT2: peer}, {CT2: f"ratio_{key}"}, asked[name]["batch"] * LENGTH
        turns = {"case": asked[name], "warm": half, "rounds": rounds, "calls": 4 if name == "batch1" else 1}
        work.compare(engines, ratios, f"tokens_s*_{key}", units, **turns)

    with work.part("agreement"), ExitStack() as stack:
        settings = PLAIN, Setting("int8", "MKL")
        engines = [ours(2, "float32"), ours(2, "int8"), *(theirs(2, setting) for setting in settings)]
        case = asked["greedy64"] | {"strict": True}
        started = [stack.enter_context(engine) for engine in engines]
        mine, rounded, other, other_rounded = (engine.ask(case).found for engine in started)
        work.results.add(same_tokens_float32=same(mine, other), same_tokens_int8=same(mine, rounded))
        work.results.add(**{f"same_tokens_{CT2}_int8": same(other, other_rounded)})
        if same(mine, other) < SAME:
            raise ValueError("both sides must compute the same, but put out different tokens")
    for threads, ending in THREADS.items():
        with work.part(f"speed_int8{ending}"), ExitStack() as stack:
            tried = {"batch1": (asked["batch1"], 3), "batch64": (half, 1)}
            choice = Choice("ctranslate2 ids", threads, tried, given)
            choice.try_int8()
            work.record(f"speed_int8{ending}", choice)
            peers = {best: stack.enter_context(theirs(threads, best)) for best in choice.bests}
            us = stack.enter_context(ours(threads, "int8"))
            for name in asked:
                best = choice.best["batch1" if name == "batch1" else "batch64"]
                compare(name, f"{name}{ending}", us, peers[best], work.rounds)
    with work.part("speed_float32"), ExitStack() as stack:
        choice = Choice("ctranslate2 ids", 1, {"batch1": (asked["batch1"], 2), "batch64": (half, 1)}, given)
        choice.try_out(Setting("float32", backend) for backend in BACKENDS)
        work.record("speed_float32", choice)
        peers = {best: stack.enter_context(theirs(1, best)) for best in choice.bests}
        us = stack.enter_context(ours(1, "float32"))
        for name, best in choice.best.items():
            compare(name, f"float32_{name}", us, peers[best], work.fewer)


# --- a trained translator ---------------------------------------------------------------------------------------------


def measure_test_set(work: Work) -> None:
    """From texts to texts, with a trained translator."""
    from sacrebleu.metrics.bleu import BLEU

    from heedful.models.bundle import read_bundle

    if work.model is None or work.sources is None or work.references is None:
        work.results.say("test_set is left out: it needs --model, --sources and --references")
        return
    model, folder, out = str(work.model), work.folder / "trained", work.folder / "out.txt"
    bundle, lines, references = read_bundle(work.model), lines_of(work.sources), lines_of(work.references)
    with work.part("test_set_conversion"):
        write_both(convert.write_translator, bundle.model, folder)
        for name, some in (("all", lines), ("few", lines[:TRIED])):
            (work.folder / name).write_text("".join(f"{line}\n" for line in some), encoding="utf-8")
    every, few = ({"sources": str(work.folder / name), "out": str(out)} for name in ("all", "few"))
    files = [str(work.model / name) for name in sorted(bundle.vocabularies.files())]  # that of the source first
    decode = bundle.recipe.decode
    searched: dict[str, Any] = {"beam": decode.beam, "penalty": decode.length_penalty}
    texts: dict[str, list[str]] = {}

    def given(setting: Setting) -> dict[str, Any]:
        return {"folder": stored(folder, setting), "tokenizers": files * (3 - len(files)), **searched}

    def theirs(threads: int, setting: Setting) -> Engine:
        return start("ctranslate2 file", threads, setting, **given(setting))

    def ours(threads: int, precision: str) -> Engine:
        return Engine("heedful file", threads, model=model, precision=precision, **searched)

    def score(name: str, engine: Engine) -> float:
        engine.ask(every)
        texts[name] = lines_of(out)
        metric: Any = BLEU(tokenize=bundle.recipe.evaluate.bleu_tokenize)
        return float(metric.corpus_score(texts[name], [references]).score)

    best = Setting("int8", "MKL", batch_tokens=FIRST_BATCH_TOKENS)
    for threads, ending in THREADS.items():
        with work.part(f"test_set{ending}"), ExitStack() as stack:
            choice = Choice("ctranslate2 file", threads, {"the test set": (few, 1)}, given)
            if threads == 1:
                choice.try_int8(FIRST_BATCH_TOKENS)
                choice.try_out(best._replace(batch_tokens=tokens) for tokens in BATCH_TOKENS for best in choice.bests)
            else:
                choice.try_out([best, best._replace(workers=threads)])
            best = choice.best["the test set"]
            work.record(f"test_set{ending}", choice)
            us = stack.enter_context(ours(threads, "int8"))
            work.results.add(**{f"start_s{ending}": us.wait()})
            peer = stack.enter_context(theirs(threads, best))
            work.results.add(**{f"start_s_{CT2}{ending}": peer.wait()})
            rate = f"sentences_s*_test_set{ending}"
            turns = {"case": every, "warm": few, "rounds": work.fewer}
            work.compare({OURS: us, CT2: peer}, {CT2: f"ratio_test_set{ending}"}, rate, len(lines), **turns)
    with work.part("bleu"), ExitStack() as stack:
        plain = PLAIN._replace(batch_tokens=best.batch_tokens)
        engines = {
            "float32": ours(2, "float32"),
            "int8": ours(2, "int8"),
            f"{CT2}_float32": theirs(2, plain),
            f"{CT2}_int8": theirs(2, best),
        }
        started = {name: stack.enter_context(engine) for name, engine in engines.items()}
        bleu = {name: score(name, engine) for name, engine in started.items()}
        work.results.add(**{f"bleu_{name}": figure for name, figure in bleu.items()})
        work.results.add(bleu_loss=bleu["float32"] - bleu["int8"])
        work.results.add(ct2_bleu_loss=bleu[f"{CT2}_float32"] - bleu[f"{CT2}_int8"])
        work.results.add(same_texts_float32=same(texts["float32"], texts[f"{CT2}_float32"]))
        work.results.add(same_texts_int8=same(texts["float32"], texts["int8"]))
        work.results.add(**{f"same_texts_{CT2}_int8": same(texts[f"{CT2}_float32"], texts[f"{CT2}_int8"])})


def lines_of(file: Path) -> list[str]:
    """The lines of a text, which may be compressed."""
    return list(read_lines(file))


# --- a language model -------------------------------------------------------------------------------------------------


def measure_gpt(work: Work) -> None:
    """One prompt, continued greedily."""
    scale, prompts, folder = work.scale, work.folder / "prompts.json", work.folder / "gpt"
    one, several = {"batch": 1}, {"batch": 2, "strict": True}
    read: dict[str, Any] = {"prompts": str(prompts), "generated": scale.generated}
    missing = why_no_ctranslate2()
    if missing is not None:
        work.results.say(f"gpt is measured without CTranslate2: {missing}")
    with work.part("gpt_conversion"):
        write_json(prompts, random_ids(2, (scale.prompt, scale.prompt), scale.language.vocabulary))
        if missing is None:
            write_both(convert.write_language_model, language_model(work.tiny), folder)

    def ours(threads: int, precision: str) -> Engine:
        return Engine("heedful continues", threads, precision=precision, tiny=work.tiny, **read)

    def hugging_face(threads: int) -> Engine:
        return Engine("transformers continues", threads, tiny=work.tiny, **read)

    def given(setting: Setting) -> dict[str, Any]:
        return {"folder": stored(folder, setting), **read}

    def theirs(threads: int, setting: Setting) -> Engine:
        return start("ctranslate2 continues", threads, setting, **given(setting))

    with work.part("gpt_agreement"), ExitStack() as stack:
        engines = {OURS: ours(2, "float32"), HUGGING_FACE: hugging_face(2)}
        if missing is None:
            engines[CT2] = theirs(2, PLAIN)
        started = [stack.enter_context(engine) for engine in engines.values()]
        found = {name: engine.ask(several).found for name, engine in zip(engines, started, strict=True)}
        for name in list(engines)[1:]:
            share = same_start(found[OURS], found[name])
            work.results.add(**{f"gpt_same_tokens_{name}": share})
            if share < SAME:
                raise ValueError(f"both sides must compute the same, but {name} puts out other tokens")
    for threads, ending in THREADS.items():
        with work.part(f"gpt{ending}"), ExitStack() as stack:
            ratios, peers = {HUGGING_FACE: f"ratio_gpt{ending}"}, dict[str, Engine]()
            if missing is None:
                choice = Choice("ctranslate2 continues", threads, {"gpt": (one, 2)}, given)
                choice.try_int8()
                work.record(f"gpt{ending}", choice)
                peers[CT2] = stack.enter_context(theirs(threads, choice.best["gpt"]))
                ratios[CT2] = f"ratio_gpt_{CT2}{ending}"
            us, other = stack.enter_context(ours(threads, "int8")), stack.enter_context(hugging_face(threads))
            engines = {OURS: us, HUGGING_FACE: other, **peers}
            work.compare(engines, ratios, f"tokens_s*_gpt{ending}", scale.generated, case=one, rounds=work.fewer)


def same_start(some: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> float:
    """The share of tokens before the first difference, without the last ones, where only we may put out `</s>`."""
    equal = 0
    for one, other in zip(some, others, strict=True):
        pairs = list(zip(one[:-1], other[:-1], strict=True))
        equal += next((place for place, (mine, theirs) in enumerate(pairs) if mine != theirs), len(pairs))
    return equal / sum(len(one) - 1 for one in some)


# --- an encoder -------------------------------------------------------------------------------------------------------


def measure_bert(work: Work) -> None:
    """Vectors of short texts."""
    few = {"texts": work.scale.texts // 8}
    for threads, ending in THREADS.items():
        with work.part(f"bert{ending}"), ExitStack() as stack:
            engines = {
                name: stack.enter_context(Engine("heedful vectors", threads, precision=precision, tiny=work.tiny))
                for name, precision in ((OURS, "int8"), ("float32", "float32"))
            }
            ratios = {"float32": f"ratio_bert{ending}"}
            turns = {"case": {"texts": work.scale.texts}, "warm": few, "rounds": work.fewer}
            work.compare(engines, ratios, f"texts_s*_bert{ending}", work.scale.texts, **turns)
            int8, plain = (engine.ask(few).found for engine in engines.values())
            work.results.add(**{f"bert_least_cosine{ending}": min(map(_cosine, int8, plain))})


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product, squares = (sum(a * b for a, b in zip(x, y, strict=True)) for x, y in ((one, other), (one, one)))
    return float(product / (squares * sum(b * b for b in other)) ** 0.5)
