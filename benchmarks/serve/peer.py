"""The peer of benchmarks.serve.load: CTranslate2 with micro-batches, behind the same routes.

    python -m benchmarks.serve.peer --model FOLDER --converted FOLDER --type float32 --workers 1 --threads 2 --port 0

Sentences that arrive within 10 ms of each other are a batch, as servers around CTranslate2 usually have it; `workers`
batches are translated at once. Everything else is ours: HTTP, schemas, sentences, tokens.
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from threading import Condition, Thread
from typing import Any, ClassVar

import ctranslate2
from benchmarks.cpu.decode_cpu_peers import number_of

import heedful
from heedful.base.options import Option
from heedful.data.corpora.sentence_splitting import Piece, split_with_spacing
from heedful.server.run import listen, run
from heedful.server.served import Models, Served
from heedful.server.settings import ServeSettings
from heedful.tasks.shared.answering.jobs import Job
from heedful.tasks.shared.answering.service import Input, Service
from heedful.tasks.translate.service import OPTIONS

WINDOW = 0.010  # seconds in which a batch fills
MOST = 64  # sentences of a batch


class PeerJob(Job):
    """Texts whose sentences wait for a batch, and its results."""

    def __init__(self, service: "PeerService", texts: Sequence[str]) -> None:
        self._service, self._texts = service, [split_with_spacing(text) for text in texts]
        sentences: list[Piece] = [piece for pieces in self._texts for piece in pieces]
        self._sentences, self._found = [piece.text for piece in sentences], dict[int, str]()
        self._sent = False

    @property
    def size(self) -> int:
        return len(self._sentences)

    def advance(self, room: int) -> bool:
        if not self._sent:
            self._sent = True
            spoken = [(index, text) for index, text in enumerate(self._sentences) if text.strip()]
            for (index, _), ids in zip(
                spoken, self._service.source.encode_batch([text for _, text in spoken]), strict=True
            ):
                self._service.send([*map(str, ids)], self._found, index)
            self._found |= {index: "" for index, text in enumerate(self._sentences) if not text.strip()}
        if len(self._found) < len(self._sentences):
            return False
        found = iter(range(len(self._sentences)))
        self.results = [
            {"text": "".join(piece.before + self._found[next(found)] for piece in pieces)} for pieces in self._texts
        ]
        return True

    def cancel(self) -> None:
        return


class PeerService(Service):
    """A translator of CTranslate2."""

    options: ClassVar[Mapping[str, Option]] = OPTIONS

    def __init__(self, model: Any, converted: str, kind: str, workers: int, threads: int) -> None:
        super().__init__(model)
        self.source, self._target = model.vocabularies["source"], model.vocabularies["target"]
        self._beam, self._penalty = model.recipe.decode.beam, model.recipe.decode.length_penalty
        self._translator = ctranslate2.Translator(
            converted,
            device="cpu",
            compute_type=kind,
            inter_threads=workers,
            intra_threads=max(1, threads // workers),
        )
        self._waiting = deque[tuple[list[str], dict[int, str], int]]()
        self._news = Condition()
        for _ in range(workers):
            Thread(target=self._translate, daemon=True).start()

    @property
    def idle(self) -> bool:
        return not self._waiting

    def send(self, pieces: list[str], found: dict[int, str], index: int) -> None:
        with self._news:
            self._waiting.append((pieces, found, index))
            self._news.notify_all()

    def job(self, inputs: Sequence[Input], options: Mapping[str, Any], *, watched: bool = False) -> Job:
        return PeerJob(self, [values["text"] for values in inputs])

    def tick(self) -> None:
        with self._news:  # until a batch is done, or somebody asks
            self._news.wait(0.002)

    def _translate(self) -> None:
        while True:
            with self._news:
                while not self._waiting:
                    self._news.wait()
            time.sleep(WINDOW)
            with self._news:
                batch = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
            if not batch:
                continue
            done = self._translator.translate_batch(
                [pieces for pieces, _, _ in batch], beam_size=self._beam, length_penalty=self._penalty, max_batch_size=0
            )
            ids = [[number_of(piece) for piece in result.hypotheses[0]] for result in done]
            texts = self._target.decode_batch(ids)
            with self._news:
                for (_, found, index), text in zip(batch, texts, strict=True):
                    found[index] = text
                self._news.notify_all()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--converted", required=True)
    parser.add_argument("--type", default="float32")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    sys.setswitchinterval(0.001)  # as our command line has it
    settings = ServeSettings(port=options.port, max_text=100_000)
    with listen(settings) as listening:
        model = heedful.load(options.model, "cpu")
        service = PeerService(model, options.converted, options.type, options.workers, options.threads)
        print(f"serving on http://127.0.0.1:{listening.getsockname()[1]} ", file=sys.stderr, flush=True)
        run(Models([Served("peer", service)]), settings, listening)


if __name__ == "__main__":
    main()
