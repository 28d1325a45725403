"""`heedful serve` under load, on a CPU, and next to CTranslate2.

    python -m benchmarks.serve.load --demo MODEL --base MODEL [--parts clients,overload,...] [--merge] [--tiny]

clients    the demo's model: 64 clients for 60 s, of whose requests 10% are given up; every answer is compared with the
           one that the model gives alone. What is left afterwards: requests, threads, files
overload   its peak; then Poisson arrivals at four times that rate: how many are answered, how fast others are refused
memory     20,000 requests after a warm-up: how much the server grows
line       short requests while a text of 1,500 tokens is translated, and without it
peer       the base model next to CTranslate2, whose micro-batches of 10 ms stand behind the same routes: the peaks of
           both, then Poisson arrivals at half of the slower one's peak. Nine of ten requests are one line of the file
           --sources, one has some 200 to 400 tokens
gpu        the base model on --device: requests of one line of 20 to 34 tokens from 512 clients, then Poisson arrivals
           at half of that rate. Not among the parts that run by default

Client and server share the machine. Rates are of requests; p95 is of short requests.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

from benchmarks.serve.client import Ask, Reply, closed_loop, percentile, poisson
from benchmarks.serve.servers import Server
from benchmarks.shared.gpu_work import Results, choose_names

import heedful
from heedful.data.builtin.english_spanish import sentence_pairs
from heedful.metrics.recorded_results import RESULTS

PATH = "/v1/translate"
LONG = 1500  # tokens of a text that must not hold up others


class Work:
    """What the parts have in common."""

    def __init__(self, results: Results, options: argparse.Namespace) -> None:
        self.results, self.options, self.tiny = results, options, bool(options.tiny)
        self.lines = [source for source, _ in sentence_pairs("test", 2000)]

    def seconds(self, full: float) -> float:
        return min(full, 3.0) if self.tiny else full

    def report(self, **figures: float) -> None:
        self.results.add(**{name: round(float(value), 4) for name, value in figures.items()})


def short_asks(lines: Sequence[str], seed: int = 0, **options: Any) -> Callable[[], Ask]:
    """Requests of one line, drawn at random."""
    chance = random.Random(seed)

    def ask() -> Ask:
        number = chance.randrange(len(lines))
        return Ask(PATH, {"text": lines[number], **options}, "short", number)

    return ask


def answered(replies: Sequence[Reply]) -> list[Reply]:
    return [reply for reply in replies if reply.status == 200]


def errors(replies: Sequence[Reply]) -> int:
    return sum(reply.status >= 500 for reply in replies)


def measure_clients(work: Work) -> None:
    """64 clients that give up some requests."""
    model: Any = heedful.load(work.options.demo, "cpu")
    expected = model.translate(work.lines)
    with Server.of_ours(work.options.demo) as server:
        closed_loop(server.port, 8, short_asks(work.lines), work.seconds(5))
        time.sleep(1)
        threads, files = server.threads, server.files
        seconds = work.seconds(60)
        found = closed_loop(server.port, 64, short_asks(work.lines, 1), seconds, abort=0.1)
        time.sleep(2)  # connections end
        right = [reply.content["results"][0]["text"] == expected[reply.ask.number] for reply in answered(found)]
        leaks = server.metric("heedful_under_way") + max(0, server.threads - threads) + max(0, server.files - files)
    done, times = answered(found), [reply.seconds for reply in answered(found)]
    work.report(
        clients_requests=len(found),
        clients_given_up=sum(reply.status == 0 for reply in found),
        clients_s=len(done) / seconds,
        clients_p95_ms=1e3 * percentile(times, 0.95),
        errors_5xx=errors(found),
        unequal=right.count(False),
        leaks=leaks,
    )


def measure_overload(work: Work) -> None:
    """Four times the peak."""
    queue = 64
    with Server.of_ours(work.options.demo, "--queue", str(queue)) as server:
        closed_loop(server.port, 8, short_asks(work.lines), work.seconds(5))
        seconds = work.seconds(20)
        peak = len(answered(closed_loop(server.port, 48, short_asks(work.lines, 1), seconds))) / seconds
        ask = short_asks(work.lines, 2)
        asks = [ask() for _ in range(int(4 * peak * seconds))]
        began = time.perf_counter()
        found = poisson(server.port, 4 * peak, asks)
        took = time.perf_counter() - began
        most = server.metric("heedful_most_under_way")
    refused = [reply.seconds for reply in found if reply.status == 429]
    work.report(
        peak_s=peak,
        overload_goodput=len(answered(found)) / took / peak,
        overload_refused=len(refused),
        rejection_ms=1e3 * percentile(refused, 0.95),
        queue_most=most,
        queue_limit=queue,
        overload_5xx=errors(found),
    )


def measure_memory(work: Work) -> None:
    """Thousands of requests."""
    warm, many = (100, 300) if work.tiny else (4000, 20_000)
    with Server.of_ours(work.options.demo) as server:
        sizes = []
        for count in (warm, many):
            left = iter(range(count))
            ask = short_asks(work.lines, count)
            closed_loop(server.port, 48, lambda left=left, ask=ask: None if next(left, None) is None else ask(), 3600)  # type: ignore[misc]
            sizes.append(server.memory)
    work.report(memory_growth=sizes[1] / sizes[0] - 1, memory_mib=sizes[1] / 2**20, memory_requests=many)


def measure_line(work: Work) -> None:
    """Short requests next to a long text."""
    model: Any = heedful.load(work.options.demo, "cpu")
    text, tokens = "", 0
    for line in work.lines:
        text, tokens = f"{text} {line}", tokens + len(model.vocabularies["source"].encode(line))
        if tokens >= LONG:
            break
    with Server.of_ours(work.options.demo) as server:
        closed_loop(server.port, 4, short_asks(work.lines), work.seconds(5))
        seconds, times = work.seconds(30), []
        rate = 0.3 * len(answered(closed_loop(server.port, 32, short_asks(work.lines, 1), seconds / 3))) / (seconds / 3)
        for with_long in (False, True):
            over, taken = Event(), list[float]()

            def ask_long(over: Event = over, taken: list[float] = taken) -> None:
                while not over.is_set():
                    taken += [
                        one.seconds for one in closed_loop(server.port, 1, lambda: Ask(PATH, {"text": text}), 0.1)
                    ]

            thread = Thread(target=ask_long)
            if with_long:
                thread.start()
            ask = short_asks(work.lines, 2)
            found = poisson(server.port, rate, [ask() for _ in range(int(rate * seconds))])
            if with_long:
                over.set()
                thread.join()
            times.append(percentile([reply.seconds for reply in answered(found)], 0.95))
    work.report(
        line_rate_s=rate,
        line_p95_ms=1e3 * times[0],
        line_p95_long_ms=1e3 * times[1],
        line_long_s=percentile(taken, 0.5),
        head_of_line=times[1] / times[0],
    )


# --- next to CTranslate2 ----------------------------------------------------------------------------------------------


def mixed_asks(lines: Sequence[str], seed: int) -> Callable[[], Ask]:
    """Nine of ten requests are a line; one is a text of many."""
    chance = random.Random(seed)

    def ask() -> Ask:
        if chance.random() < 0.1:
            some = chance.sample(range(len(lines)), chance.randint(14, 28))
            return Ask(PATH, {"text": " ".join(lines[number] for number in some)}, "long")
        return Ask(PATH, {"text": lines[chance.randrange(len(lines))]}, "short")

    return ask


def measure_peer(work: Work) -> None:
    """CTranslate2 behind the same routes."""
    from benchmarks.cpu.decode_cpu_parts import write_both

    base = work.options.base
    model: Any = heedful.load(base, "cpu")
    text = work.options.sources.read_text(encoding="utf-8").splitlines()
    encode = model.vocabularies["source"].encode
    lines = [line for line in text if 3 < len(encode(line)) < 20]
    seconds = work.seconds(25)
    with tempfile.TemporaryDirectory() as folder:
        write_both(model.network, Path(folder))
        for kind, suffix in (("float32", ""), ("int8", "_int8")):
            converted = Path(folder) / kind
            peers = {
                workers: [
                    "--model",
                    str(base),
                    "--converted",
                    str(converted),
                    "--type",
                    kind,
                    "--workers",
                    str(workers),
                ]
                for workers in (1, 2)
            }
            peaks: dict[str, float] = {}
            for workers, arguments in peers.items():
                with Server("benchmarks.serve.peer", arguments, 2) as server:
                    peaks[f"peer {workers}"] = _peak(server, lines, seconds / 2)
            workers = max(peers, key=lambda workers: peaks[f"peer {workers}"])
            with Server("benchmarks.serve.peer", peers[workers], 2) as server:
                theirs = _peak(server, lines, seconds)
            with Server.of_ours(base, "--precision", kind) as server:
                ours = _peak(server, lines, seconds)
                rate = min(ours, theirs) / 2
                our_times = _times(server, lines, rate, seconds * 2)
            with Server("benchmarks.serve.peer", peers[workers], 2) as server:
                closed_loop(server.port, 4, mixed_asks(lines, 0), work.seconds(4))
                their_times = _times(server, lines, rate, seconds * 2)
            figures: Mapping[str, float] = {
                f"ct2_workers{suffix}": workers,
                f"peak{suffix or '_float32'}_s": ours,
                f"ct2_peak{suffix or '_float32'}_s": theirs,
                f"rate{suffix or '_float32'}_s": rate,
                f"p95{suffix or '_float32'}_ms": 1e3 * our_times,
                f"ct2_p95{suffix or '_float32'}_ms": 1e3 * their_times,
                f"ratio_ct2{suffix or '_float32'}": ours / theirs,
                f"ratio_ct2_p95{suffix}": our_times / their_times,
            }
            work.report(**figures)


def measure_gpu(work: Work) -> None:
    """One-line requests to a server on a GPU."""
    model: Any = heedful.load(work.options.base, "cpu")
    encode = model.vocabularies["source"].encode
    text = work.options.sources.read_text(encoding="utf-8").splitlines()
    lines = [line for line in text if 20 <= len(encode(line)) <= 34]
    clients, seconds = (16 if work.tiny else 512), work.seconds(30)
    with Server.of_ours(work.options.base, "--device", work.options.device, "--queue", "4096", threads=8) as server:
        closed_loop(server.port, clients, short_asks(lines), work.seconds(10))
        found = closed_loop(server.port, clients, short_asks(lines, 1), seconds)
        peak = len(answered(found)) / seconds
        ask = short_asks(lines, 2)
        later = poisson(server.port, peak / 2, [ask() for _ in range(int(peak * seconds / 2))])
        times = [reply.seconds for reply in answered(later)]
    work.report(
        requests_s_gpu=peak, gpu_p95_ms=1e3 * percentile(times, 0.95), gpu_5xx=errors(found), gpu_clients=clients
    )


def _peak(server: Server, lines: Sequence[str], seconds: float) -> float:
    closed_loop(server.port, 8, mixed_asks(lines, 0), min(4.0, seconds))
    return len(answered(closed_loop(server.port, 64, mixed_asks(lines, 1), seconds))) / seconds


def _times(server: Server, lines: Sequence[str], rate: float, seconds: float) -> float:
    ask = mixed_asks(lines, 2)
    found = poisson(server.port, rate, [ask() for _ in range(max(20, int(rate * seconds)))])
    return percentile([reply.seconds for reply in answered(found) if reply.ask.kind == "short"], 0.95)


MEASURES: Mapping[str, Callable[[Work], None]] = {
    "clients": measure_clients,
    "overload": measure_overload,
    "memory": measure_memory,
    "line": measure_line,
    "peer": measure_peer,
    "gpu": measure_gpu,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join([*MEASURES][:-1]), help=f"some of {', '.join(MEASURES)}")
    parser.add_argument("--demo", type=Path, help="the demo's model")
    parser.add_argument("--base", type=Path, help="a trained translator, for `peer` and `gpu`")
    parser.add_argument("--sources", type=Path, help="lines that it translates")
    parser.add_argument("--device", default="cuda", help="the device of the part `gpu`")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument(
        "--tiny", action="store_true", help="seconds instead of minutes, to try it out; records nothing"
    )
    options = parser.parse_args()
    parts = choose_names(parser, "--parts", options.parts, tuple(MEASURES))
    if {"peer", "gpu"} & {*parts} and not (options.base and options.sources):
        parser.error("the parts `peer` and `gpu` need --base and --sources")
    if not options.demo and {"clients", "overload", "memory", "line"} & {*parts}:
        parser.error("these parts need --demo")
    work = Work(Results("serve_load", None if options.tiny else options.results, options.merge), options)
    for part in parts:
        with work.results.part(part):
            MEASURES[part](work)
    work.results.exit()


if __name__ == "__main__":
    main()
