"""The parts of benchmarks.cpu.decode_cpu about a trained translator, from texts to texts."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.cpu.decode_cpu_engines import Engine
from benchmarks.cpu.decode_cpu_parts import CT2, OURS, THREADS, Work, same, stored, write_both
from benchmarks.cpu.decode_cpu_peers import Choice, Setting, start

from heedful.data.corpora.formats.lines import read_lines
from heedful.models.bundle import SHORTLIST, Bundle, read_bundle
from heedful.models.networks import EncoderDecoder

TRIED = 32  # lines of the test set that settings are tried on
BATCH_TOKENS = (512, 1024, 4096)  # of CTranslate2's batches of texts, besides this:
FIRST_BATCH_TOKENS = 2048
ALONE = 32  # lines that are translated one by one


@dataclass(frozen=True)
class Texts:
    """A trained translator, a test set, and both sides that translate it."""

    work: Work
    bundle: Bundle[EncoderDecoder]
    lines: Sequence[str]
    references: Sequence[str]
    models: Path  # those of CTranslate2
    listed: bool = False  # whether both sides have shortlists

    @classmethod
    def of(cls, work: Work, part: str) -> "Texts | None":
        """What was given to the program; None, and a line of output, if nothing was."""
        if work.model is None or work.sources is None or work.references is None:
            work.results.say(f"{part} is left out: it needs --model, --sources and --references")
            return None
        lines, references = lines_of(work.sources), lines_of(work.references)
        return cls(work, read_bundle(work.model), lines, references, work.folder / part, part == "shortlist")

    @property
    def out(self) -> Path:
        """Where both sides write."""
        return self.work.folder / "out.txt"

    def write(self) -> None:
        """Write CTranslate2's models."""
        lexicon = None
        if self.listed:
            from heedful.tasks.translate.lexicon import read_lexicon

            lexicon = read_lexicon(self.work.model, self.bundle.vocabularies)
        write_both(self.bundle.model, self.models, lexicon)

    def case(self, name: str, count: int, alone: bool = False) -> dict[str, Any]:
        """Some lines, at equal distances, as both sides are asked to translate them."""
        path, count = self.work.folder / f"{name}.txt", min(count, len(self.lines))
        some = [self.lines[index * len(self.lines) // count] for index in range(count)]
        path.write_text("".join(f"{line}\n" for line in some), encoding="utf-8")
        return {"sources": str(path), "out": str(self.out), "alone": alone}

    def timed(self, kind: str, alone: bool = False) -> tuple[dict[str, Any], int]:
        """What is timed, and the number of its lines."""
        count = min(ALONE if alone else self.work.lines, len(self.lines))
        return self.case(kind, count, alone), count

    @property
    def _shared(self) -> dict[str, Any]:
        decode = self.bundle.recipe.decode
        return {"beam": decode.beam, "penalty": decode.length_penalty, "listed": self.listed}

    def given(self, setting: Setting) -> dict[str, Any]:
        """What CTranslate2 is started with."""
        assert self.work.model is not None
        files = [str(self.work.model / name) for name in sorted(self.bundle.vocabularies.files())]  # the source's first
        return {"folder": stored(self.models, setting), "tokenizers": files * (3 - len(files)), **self._shared}

    def theirs(self, threads: int, setting: Setting) -> Engine:
        """CTranslate2."""
        return start("ctranslate2 file", threads, setting, **self.given(setting))

    def ours(self, threads: int, precision: str) -> Engine:
        """`heedful translate`."""
        return Engine("heedful file", threads, model=str(self.work.model), precision=precision, **self._shared)

    def score(self, engine: Engine) -> tuple[float, list[str]]:
        """The BLEU of the whole test set, and its translations."""
        from sacrebleu.metrics.bleu import BLEU

        engine.ask(self.case("all", len(self.lines)))
        found = lines_of(self.out)
        metric: Any = BLEU(tokenize=self.bundle.recipe.evaluate.bleu_tokenize)
        return float(metric.corpus_score(found, [self.references]).score), found


def lines_of(file: Path) -> list[str]:
    """The lines of a text, which may be compressed."""
    return list(read_lines(file))


def measure_test_set(work: Work) -> None:
    """Lines of the test set."""
    texts = Texts.of(work, "test_set")
    if texts is None:
        return
    with work.part("test_set_conversion"):
        texts.write()
    (case, count), few = texts.timed("timed"), texts.case("few", TRIED)
    near: list[Setting] = []
    for threads, ending in THREADS.items():
        with work.part(f"test_set{ending}"), ExitStack() as stack:
            choice = Choice("ctranslate2 file", threads, {"the test set": (few, 1)}, texts.given)
            if threads == 1:
                choice.try_int8(FIRST_BATCH_TOKENS)
                choice.try_out(best._replace(batch_tokens=tokens) for tokens in BATCH_TOKENS for best in choice.bests)
            else:
                choice.try_threads([*near, *(setting._replace(workers=threads) for setting in near)])
            near = choice.near()
            best = choice.best["the test set"]
            work.record(f"test_set{ending}", choice)
            us = stack.enter_context(texts.ours(threads, "int8"))
            work.results.add(**{f"start_s{ending}": us.wait()})
            peer = stack.enter_context(texts.theirs(threads, best))
            work.results.add(**{f"start_s_{CT2}{ending}": peer.wait()})
            rate, turns = f"sentences_s*_test_set{ending}", {"case": case, "warm": few, "rounds": work.fewer(threads)}
            work.compare({OURS: us, CT2: peer}, {CT2: f"ratio_test_set{ending}"}, rate, count, **turns)


def measure_shortlist(work: Work) -> None:
    """Lines of the test set, and sentences one by one, with shortlists of the same lexicon on both sides."""
    texts = Texts.of(work, "shortlist")
    if texts is None or not has_lexicon(work, "shortlist"):
        return
    with work.part("shortlist_conversion"):
        texts.write()
    few = texts.case("few", TRIED)
    cases = {"": texts.timed("timed"), "_batch1": texts.timed("alone", alone=True)}
    tried = {"": (few, 1), "_batch1": (cases["_batch1"][0], 1)}
    near: list[Setting] = []
    for threads, ending in THREADS.items():
        with work.part(f"shortlist{ending}"), ExitStack() as stack:
            choice = Choice("ctranslate2 file", threads, tried, texts.given)
            choice.try_threads(near) if near else choice.try_int8(FIRST_BATCH_TOKENS)
            near = choice.near()
            work.record(f"shortlist{ending}", choice)
            us = stack.enter_context(texts.ours(threads, "int8"))
            peers = {setting: stack.enter_context(texts.theirs(threads, setting)) for setting in choice.bests}
            for kind, (case, count) in cases.items():
                key, engines = f"shortlist{kind}{ending}", {OURS: us, CT2: peers[choice.best[kind]]}
                turns = {"case": case, "warm": tried[kind][0], "rounds": work.fewer(threads)}
                work.compare(engines, {CT2: f"ratio_{key}"}, f"sentences_s*_{key}", count, **turns)


def measure_bleu(work: Work) -> None:
    """What int8 and shortlists lose, on the whole test set: no time counts, so that the machine may be busy."""
    texts = Texts.of(work, "bleu")
    if texts is None:
        return
    found: dict[str, list[str]] = {}

    def score(name: str, engine: Engine) -> float:
        assert texts is not None  # checked above
        with engine:
            bleu, found[name] = texts.score(engine)
        work.results.add(**{f"bleu_{name}": bleu})
        return bleu

    int8 = Setting("int8", "MKL", batch_tokens=FIRST_BATCH_TOKENS, workers=2)
    with work.results.part("bleu"):
        texts.write()
        plain, rounded = score("float32", texts.ours(2, "float32")), score("int8", texts.ours(2, "int8"))
        other = score(f"{CT2}_float32", texts.theirs(2, int8._replace(compute_type="float32")))
        other_rounded = score(f"{CT2}_int8", texts.theirs(2, int8))
        work.results.add(bleu_loss=plain - rounded, ct2_bleu_loss=other - other_rounded)
        work.results.add(same_texts_float32=same(found["float32"], found[f"{CT2}_float32"]))
        work.results.add(same_texts_int8=same(found["float32"], found["int8"]))
        work.results.add(**{f"same_texts_{CT2}_int8": same(found[f"{CT2}_float32"], found[f"{CT2}_int8"])})
    if not has_lexicon(work, "the BLEU of shortlists"):
        return
    with work.results.part("bleu_shortlist"):
        texts = replace(texts, listed=True, models=work.folder / "bleu_listed")
        texts.write()
        ours, theirs = score("shortlist", texts.ours(2, "int8")), score(f"{CT2}_shortlist", texts.theirs(2, int8))
        figures = work.results.figures  # each side's own without a shortlist, in float32
        work.results.add(shortlist_bleu_loss=figures["bleu_float32"] - ours)
        work.results.add(ct2_shortlist_bleu_loss=figures[f"bleu_{CT2}_float32"] - theirs)


def has_lexicon(work: Work, part: str) -> bool:
    """Whether the translator has a lexicon; if not, how it gets one is said."""
    assert work.model is not None
    found = (work.model / SHORTLIST).exists()
    if not found:
        work.results.say(f"{part} is left out: it needs {SHORTLIST}, which `heedful shortlist {work.model}` learns")
    return found
