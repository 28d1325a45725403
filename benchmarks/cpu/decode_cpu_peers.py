"""The peers of benchmarks.cpu.decode_cpu: CTranslate2, and transformers' GPT-2.

CTranslate2 runs in processes that never import PyTorch, with whatever settings are the fastest on this machine. It has
no vocabulary map but where both sides have shortlists.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cpu.decode_cpu_engines import Answering, Engine, EngineError

from heedful.base.files import read_json

LEAST = (4, 8)  # the version of CTranslate2
HOW = 'pip install "ctranslate2>=4.8"'
NAMED = {0: "<pad>", 1: "<s>", 2: "</s>", 3: "<unk>"}  # pieces with these numbers; the others are called by theirs
END = NAMED[2]
NEAR = 1.25  # times the fastest
OTHER_INT8 = ("int8_float32", "int8_bfloat16")  # types besides "int8", which computes the rest as it likes
BACKENDS: Mapping[str, Mapping[str, str]] = {
    "MKL": {"CT2_USE_MKL": "1"},
    "packed MKL": {"CT2_USE_MKL": "1", "CT2_USE_EXPERIMENTAL_PACKED_GEMM": "1"},
    "oneDNN": {"CT2_USE_MKL": "0"},
}


def why_no_ctranslate2() -> str | None:
    """Why CTranslate2 cannot be measured, with the way out; None if it can."""
    try:
        found = version("ctranslate2")
    except PackageNotFoundError:
        return f"CTranslate2 is not installed: {HOW}"
    if tuple(int(part) for part in found.split(".")[:2]) < LEAST:
        return f"CTranslate2 {found} is too old: {HOW}"
    return None


# --- settings ---------------------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """How CTranslate2 computes."""

    compute_type: str
    backend: str
    instructions: str = ""  # that its own kernels are forced to use
    batch_tokens: int = 0  # of a batch, where it makes batches itself
    workers: int = 1  # batches that it translates at once, with the threads shared among them
    spins: bool = False  # whether its threads wait for each other as OpenMP has it, or as `import heedful` sets it

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that choose it."""
        forced = {"CT2_FORCE_CPU_ISA": self.instructions} if self.instructions else {}
        usual = {"KMP_BLOCKTIME": "200"} if self.spins else {}  # OpenMP's own: with any such variable nothing is set
        return {**BACKENDS[self.backend], **forced, **usual}

    @property
    def title(self) -> str:
        """What the record calls it."""
        more = [f"its own kernels with {self.instructions}"] if self.instructions else []
        more += [f"batches of {self.batch_tokens} tokens"] if self.batch_tokens else []
        more += [f"{self.workers} batches at once"] if self.workers > 1 else []
        more += ["threads that spin"] if self.spins else []
        return ", ".join([self.compute_type, self.backend, *more])


class Choice:
    """Tries settings, and keeps the fastest one of each kind of work."""

    def __init__(
        self,
        maker: str,
        threads: int,
        works: Mapping[str, tuple[Any, int]],
        given: Callable[[Setting], Mapping[str, Any]],
    ) -> None:
        """Take kinds of work: what is asked for, and how many times; and what the maker is given for a setting."""
        self._maker, self._threads, self._works, self._given = maker, threads, works, given
        self.best: dict[str, Setting] = {}
        self._near: dict[str, dict[Setting, float]] = {name: {} for name in works}
        self.seconds: dict[str, dict[str, float]] = {name: {} for name in works}
        self.failed: list[str] = []

    def try_out(self, settings: Iterable[Setting]) -> None:
        """Time all kinds of work with some settings; one that this machine does not have is left out."""
        for setting in settings:
            try:
                with start(self._maker, self._threads, setting, **self._given(setting)) as engine:
                    engine.ask(next(iter(self._works.values()))[0])  # warms up
                    for name, (case, times) in self._works.items():
                        self._take(name, setting, min(engine.ask(case).seconds for _ in range(times)))
            except EngineError as error:
                self.failed.append(f"{setting.title}: {error}")
        if not self.best:
            raise EngineError("; ".join(self.failed))

    def try_int8(self, batch_tokens: int = 0) -> None:
        """Try the backends, then the other types of int8 with the best of them, then other instructions."""
        self.try_out(Setting("int8", backend, batch_tokens=batch_tokens) for backend in BACKENDS)
        for name in OTHER_INT8:
            self.try_out([best._replace(compute_type=name) for best in self.bests])
        self.try_out([best._replace(instructions="AVX2") for best in self.bests])

    def try_threads(self, near: Sequence[Setting]) -> None:
        """Try settings that were the fastest with one thread, and how threads wait for each other."""
        self.try_out(near)
        self.try_out([best._replace(spins=True) for best in self.bests])

    def near(self) -> list[Setting]:
        """The settings that are nearly as fast as the fastest one at some work: with more threads one may be faster."""
        return [
            *dict.fromkeys(
                setting
                for found in self._near.values()
                for setting, seconds in found.items()
                if seconds <= NEAR * min(found.values())
            )
        ]

    @property
    def bests(self) -> set[Setting]:
        """The fastest settings."""
        return set(self.best.values())

    def _take(self, name: str, setting: Setting, seconds: float) -> None:
        if all(seconds < other for other in self.seconds[name].values()):
            self.best[name] = setting
        self.seconds[name][setting.title] = self._near[name][setting] = seconds

    def to_json(self) -> dict[str, Any]:
        """What the record says of it."""
        best = {name: setting.title for name, setting in self.best.items()}
        return {"best": best, "seconds": self.seconds, "failed": self.failed}


def start(maker: str, threads: int, setting: Setting, **arguments: Any) -> Engine:
    """Start CTranslate2 in a process of its own."""
    how = {"compute_type": setting.compute_type, "workers": setting.workers, "batch_tokens": setting.batch_tokens}
    return Engine(maker, threads, setting.environment, **how, **arguments)


# --- what runs in the process of an engine ----------------------------------------------------------------------------


def translate_ids(
    threads: int, folder: str, sources: str, compute_type: str, length: int, workers: int, batch_tokens: int
) -> Answering:
    """Translate the first sentences of a file of ids, all of them in one batch, to outputs of one length."""
    import ctranslate2

    translator = ctranslate2.Translator(folder, device="cpu", compute_type=compute_type, **_threads(threads, workers))
    ids: Any = read_json(Path(sources))
    pieces = [[*map(str, each)] for each in ids]

    def answer(case: Any) -> list[list[int]]:
        strict = {"disable_unk": True, "suppress_sequences": [[NAMED[0]], [NAMED[1]]]} if case.get("strict") else {}
        done = translator.translate_batch(
            pieces[: case["batch"]], beam_size=case["beam"], max_batch_size=0, max_input_length=0, length_penalty=0,
            min_decoding_length=length - 1, max_decoding_length=length, return_end_token=True, **strict,
        )  # fmt: skip
        found = [result.hypotheses[0] for result in done]
        if any(len(each) != length for each in found):
            raise ValueError(f"a translation has not {length} tokens")
        return [[number_of(piece) for piece in each] for each in found]

    return answer


def translate_file(
    threads: int,
    folder: str,
    tokenizers: Sequence[str],
    compute_type: str,
    beam: int,
    penalty: float,
    listed: bool,
    workers: int,
    batch_tokens: int,
) -> Answering:
    """Translate a file of texts: tokenize, translate in batches of similar lengths or one by one, detokenize, write."""
    import ctranslate2

    from heedful.data.tokenize.tokenizer import Tokenizer

    translator = ctranslate2.Translator(folder, device="cpu", compute_type=compute_type, **_threads(threads, workers))
    source, target = (Tokenizer.from_json(Path(file).read_bytes(), file) for file in tokenizers)

    def translate(lines: Sequence[str]) -> list[str]:
        pieces = [[*map(str, ids)] for ids in source.encode_batch(lines)]
        done = translator.translate_batch(
            pieces, beam_size=beam, length_penalty=penalty, batch_type="tokens", max_batch_size=batch_tokens,
            use_vmap=listed,
        )  # fmt: skip
        return target.decode_batch([[number_of(piece) for piece in result.hypotheses[0]] for result in done])

    def answer(case: Any) -> None:
        lines = Path(case["sources"]).read_text(encoding="utf-8").splitlines()
        texts = [text for line in lines for text in translate([line])] if case["alone"] else translate(lines)
        Path(case["out"]).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")

    return answer


def continue_ids(
    threads: int, folder: str, prompts: str, compute_type: str, generated: int, workers: int, batch_tokens: int
) -> Answering:
    """Continue the first prompts of a file of ids, greedily."""
    import ctranslate2

    generator = ctranslate2.Generator(folder, device="cpu", compute_type=compute_type, **_threads(threads, workers))
    ids: Any = read_json(Path(prompts))
    pieces = [[*map(str, each)] for each in ids]

    def answer(case: Any) -> list[list[int]]:
        strict = {"disable_unk": True, "suppress_sequences": [[NAMED[0]], [NAMED[1]], [END]]}
        done = generator.generate_batch(
            pieces[: case["batch"]], beam_size=1, sampling_topk=1, include_prompt_in_result=False, max_batch_size=0,
            min_length=generated, max_length=generated, **(strict if case.get("strict") else {}),
        )  # fmt: skip
        found = [list(result.sequences_ids[0]) for result in done]
        if any(len(each) != generated for each in found):
            raise ValueError(f"a continuation has not {generated} tokens")
        return found

    return answer


def transformers_continue(threads: int, prompts: str, generated: int, tiny: bool) -> Answering:
    """Continue prompts by the `generate` of transformers, with the weights of our model, in float32."""
    import torch
    from benchmarks.cpu.decode_cpu_work import language_model, language_scale, put_gpt2
    from benchmarks.gpu.gpt_gpu_peers import hugging_face

    torch.set_num_threads(threads)
    model = hugging_face(language_scale(tiny)).eval()
    put_gpt2(language_model(tiny), model)
    tokens = torch.tensor(read_json(Path(prompts)))

    @torch.inference_mode()
    def answer(case: Any) -> list[list[int]]:
        read = tokens[: case["batch"]]
        made = model.generate(
            read, attention_mask=torch.ones_like(read), do_sample=False, min_new_tokens=generated,
            max_new_tokens=generated,
        )  # fmt: skip
        found: list[list[int]] = made[:, read.shape[1] :].tolist()
        return found

    return answer


def _threads(threads: int, workers: int) -> dict[str, int]:
    return {"inter_threads": workers, "intra_threads": max(1, threads // workers)}


def pieces_of(size: int) -> list[str]:
    """The names of pieces: numbers, but for those that CTranslate2 must know. It appends `</s>` to sources itself."""
    return [NAMED.get(number, str(number)) for number in range(size)]


def number_of(piece: str) -> int:
    return int(piece) if piece.isdigit() else next(number for number, name in NAMED.items() if name == piece)
