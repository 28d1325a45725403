"""The parts of benchmarks.cpu.decode_cpu, which says what they are."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast

from benchmarks.cpu.decode_cpu_engines import Engine, alternate
from benchmarks.cpu.decode_cpu_peers import BACKENDS, Choice, Setting, pieces_of, start, why_no_ctranslate2
from benchmarks.cpu.decode_cpu_work import LENGTH, Scale, language_model, random_ids, translator
from benchmarks.gpu import decode_gpu
from benchmarks.shared.gpu_work import Results
from benchmarks.shared.other_work import QUIET, watch_others

from heedful.base.files import write_json
from heedful.interop.ctranslate2.writing import write_network
from heedful.models.networks import EncoderDecoder, LanguageModel
from heedful.tasks.translate.lexicon import Lexicon

OURS, CT2, HUGGING_FACE = "heedful", "ctranslate2", "transformers"
THREADS: Mapping[int, str] = {1: "", 2: "_2"}  # and what keys end in
SAME = 0.5  # share of sentences that must have the same tokens on both sides
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
    lines: int  # of the test set that are timed
    until: float  # when the minutes are over, in seconds of `time.monotonic`

    @property
    def is_over(self) -> bool:
        """Whether no part may begin any more."""
        return time.monotonic() > self.until

    def fewer(self, threads: int = 1) -> int:
        """The number of rounds of what takes long."""
        return max(1, (self.rounds + 1) // 2 - (threads > 1))

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
        turns = {"rounds": self.rounds, "calls": 1, "warm": turns["case"], "until": self.until, **turns}
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


def write_both(network: EncoderDecoder | LanguageModel, folder: Path, lexicon: Lexicon | None = None) -> None:
    """Write a network as a model of CTranslate2, in float32 and in int8; a lexicon becomes its vocabulary map."""
    if isinstance(network, EncoderDecoder):
        tables = {"source": cast(Any, network.encoder).embedding.weight, "target": network.output.weight}
    else:
        tables = {"text": network.output.weight}
    pieces = {name: pieces_of(len(table)) for name, table in tables.items()}
    for precision in ("float32", "int8"):
        write_network(network, folder / precision, precision, pieces, lexicon)


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
        write_both(translator(work.tiny), folder)

    def ours(threads: int, precision: str) -> Engine:
        return Engine("heedful ids", threads, precision=precision, tiny=work.tiny)

    def given(setting: Setting) -> dict[str, Any]:
        return {"folder": stored(folder, setting), "sources": str(ids), "length": LENGTH}

    def theirs(threads: int, setting: Setting) -> Engine:
        return start("ctranslate2 ids", threads, setting, **given(setting))

    def compare(name: str, key: str, us: Engine, peer: Engine, rounds: int) -> None:
        engines, ratios, units = {OURS: us, CT2: peer}, {CT2: f"ratio_{key}"}, asked[name]["batch"] * LENGTH
        turns = {"case": asked[name], "warm": half, "rounds": rounds, "calls": 3 if name == "batch1" else 1}
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
    near: Sequence[Setting] = ()
    for threads, ending in THREADS.items():
        with work.part(f"speed_int8{ending}"), ExitStack() as stack:
            tried = {"batch1": (asked["batch1"], 3), "batch64": (half, 1)}
            choice = Choice("ctranslate2 ids", threads, tried, given)
            choice.try_threads(near) if near else choice.try_int8()
            near = choice.near()
            work.record(f"speed_int8{ending}", choice)
            peers = {best: stack.enter_context(theirs(threads, best)) for best in choice.bests}
            us = stack.enter_context(ours(threads, "int8"))
            for name in asked:
                best = choice.best["batch1" if name == "batch1" else "batch64"]
                compare(name, f"{name}{ending}", us, peers[best], work.rounds if name == "batch1" else work.fewer())
    with work.part("speed_float32"), ExitStack() as stack:
        choice = Choice("ctranslate2 ids", 1, {"batch1": (asked["batch1"], 2), "batch64": (half, 1)}, given)
        choice.try_out(Setting("float32", backend) for backend in BACKENDS)
        work.record("speed_float32", choice)
        peers = {best: stack.enter_context(theirs(1, best)) for best in choice.bests}
        us = stack.enter_context(ours(1, "float32"))
        for name, best in choice.best.items():
            compare(name, f"float32_{name}", us, peers[best], work.fewer(1 if name == "batch1" else 2))


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
            write_both(language_model(work.tiny), folder)

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
    near: Sequence[Setting] = ()
    for threads, ending in THREADS.items():
        with work.part(f"gpt{ending}"), ExitStack() as stack:
            ratios, peers = {HUGGING_FACE: f"ratio_gpt{ending}"}, dict[str, Engine]()
            if missing is None:
                choice = Choice("ctranslate2 continues", threads, {"gpt": (one, 2)}, given)
                choice.try_threads(near) if near else choice.try_int8()
                near = choice.near()
                work.record(f"gpt{ending}", choice)
                peers[CT2] = stack.enter_context(theirs(threads, choice.best["gpt"]))
                ratios[CT2] = f"ratio_gpt_{CT2}{ending}"
            us, other = stack.enter_context(ours(threads, "int8")), stack.enter_context(hugging_face(threads))
            engines, rounds = {OURS: us, HUGGING_FACE: other, **peers}, work.fewer(threads)
            work.compare(engines, ratios, f"tokens_s*_gpt{ending}", scale.generated, case=one, rounds=rounds)


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
            turns = {"case": {"texts": work.scale.texts}, "warm": few, "rounds": work.fewer(threads)}
            work.compare(engines, ratios, f"texts_s*_bert{ending}", work.scale.texts, **turns)
            int8, plain = (engine.ask(few).found for engine in engines.values())
            work.results.add(**{f"bert_least_cosine{ending}": min(map(_cosine, int8, plain))})


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product, squares = (sum(a * b for a, b in zip(x, y, strict=True)) for x, y in ((one, other), (one, one)))
    return float(product / (squares * sum(b * b for b in other)) ** 0.5)
