"""A stream's progress as metrics: a page for Prometheus to read, and instruments of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from trendfold.errors import InputError, UnsupportedError
from trendfold.runtime.spark.watch import Progress

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

Told = Callable[[], Progress]
"""Reads the progress now."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of the progress; with a label, one per value of it."""

    name: str
    about: str
    read: Callable[[Progress], float | Mapping[str, float] | None]
    unit: str = ""
    label: str = ""
    is_counter: bool = False

    def values(self, progress: Progress) -> Iterator[tuple[str, float]]:
        """The values of the label, or "", with their numbers; nothing where a number is not known yet."""
        found = self.read(progress)
        if isinstance(found, Mapping):
            yield from found.items()
        elif found is not None:
            yield "", float(found)


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


METRICS = (
    Metric("batch", "Number of the last micro-batch", lambda p: p.batch),
    Metric("events", "Events read", lambda p: p.events, is_counter=True),
    Metric("events_per_second", "Rate in the last micro-batch with events", lambda p: p.events_per_second),
    Metric("late_events", "Events below the watermark, set aside", lambda p: p.late, is_counter=True),
    Metric("rejects", "Rows set aside because they are no events", lambda p: p.rejects, is_counter=True),
    Metric("rows", "Rows reported", lambda p: p.rows, label="query", is_counter=True),
    Metric("watermark", "Watermark, in seconds since 1970", lambda p: _seconds(p.watermark), "s"),
    Metric("latest_event", "Latest time of an event, since 1970", lambda p: _seconds(p.latest), "s"),
    Metric("open_windows", "Windows that may still get events", lambda p: p.open_windows),
    Metric("state_events", "Raw events in the state", lambda p: p.state_rows),
    Metric("state_vectors", "Vectors of aggregates in the state", lambda p: p.vectors),
    Metric("state", "Size of the state", lambda p: p.state_bytes, "By"),
    Metric("state_events_read", "Raw events read from the state", lambda p: p.read, is_counter=True),
    Metric("latency_p50", "From arrival to row: median of recent batches", lambda p: p.latency_p50_s, "s"),
    Metric("latency_p99", "From arrival to row: 99th percentile", lambda p: p.latency_p99_s, "s"),
)
_SUFFIX = {"s": "_seconds", "By": "_bytes", "": ""}


def prometheus_name(metric: Metric) -> str:
    """The name of a metric in Prometheus."""
    return f"trendfold_{metric.name}{_SUFFIX[metric.unit]}{'_total' if metric.is_counter else ''}"


# ---------------------------------------------------------------- Prometheus


class MetricsPage:
    """An HTTP server with one page, for Prometheus to read; it shows the progress of the moment."""

    def __init__(self, told: Told, host: str, port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError:
            raise _missing("prometheus-client") from None
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(told))
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            raise InputError(f"metrics cannot be served at {host}:{port}: {error}") from None
        self.address = f"{host}:{self._server.server_port}"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Collector:
    """What prometheus_client asks for metrics."""

    def __init__(self, told: Told) -> None:
        self.told = told

    def collect(self) -> Iterator[Any]:
        """All metrics now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        progress = self.told()
        for metric in METRICS:
            kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = kind(
                prometheus_name(metric).removesuffix("_total"),
                metric.about,
                labels=[metric.label] if metric.label else [],
            )
            for label, number in metric.values(progress):
                family.add_metric([label] if metric.label else [], number)
            yield family


def read_address(text: str) -> tuple[str, int]:
    """`PORT` or `HOST:PORT`; without a host only this machine can read the page."""
    host, _, port = text.rpartition(":")
    if not port.isdigit():
        raise InputError(f"the address of metrics is {text!r}; write PORT or HOST:PORT")
    return host or "127.0.0.1", int(port)


# ---------------------------------------------------------------- OpenTelemetry


def observe(told: Told, meter: Meter | None = None) -> None:
    """Add the metrics to a meter of OpenTelemetry, by default to the application's."""
    try:
        from opentelemetry import metrics
    except ImportError:
        raise _missing("opentelemetry-api") from None
    own = metrics.get_meter("trendfold") if meter is None else meter
    for metric in METRICS:
        make = own.create_observable_counter if metric.is_counter else own.create_observable_gauge
        make(f"trendfold.{metric.name}", [_observer(metric, told)], metric.unit, metric.about)


def _observer(metric: Metric, told: Told) -> Callable[[CallbackOptions], Iterable[Observation]]:
    from opentelemetry.metrics import Observation

    def observed(_: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(number, {metric.label: label} if metric.label else {})
            for label, number in metric.values(told())
        ]

    return observed


def _missing(package: str) -> UnsupportedError:
    return UnsupportedError(f"this needs {package}: pip install 'trendfold[monitoring]'")
