"""What operators watch: requests, their times, and how much is under way, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from heedful.server.served import Models

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters of one server."""

    def __init__(self, models: Models) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "heedful_requests", "Requests by route and status.", ["route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "heedful_request_seconds",
            "Seconds of answered requests.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        under_way = Gauge(
            "heedful_under_way", "Requests that wait or are under way.", ["model"], registry=self._registry
        )
        for one in models.served:
            under_way.labels(one.name).set_function(lambda worker=one.worker: worker.under_way)  # type: ignore[misc]
        explaining = Gauge("heedful_explaining", "Explanations that wait or are computed.", registry=self._registry)
        explaining.set_function(lambda: models.explaining)
        most = Gauge("heedful_most_under_way", "The most requests that were ever under way.", registry=self._registry)
        most.set_function(lambda: models.most)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request that is answered."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return all of them in the format of Prometheus."""
        return generate_latest(self._registry)
