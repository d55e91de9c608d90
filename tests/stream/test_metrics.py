"""A stream's metrics: what Prometheus reads, what OpenTelemetry collects, and that docs name them all."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from trendfold.errors import InputError
from trendfold.runtime.spark.metrics import METRICS, MetricsPage, observe, prometheus_name, read_address
from trendfold.runtime.spark.watch import Progress

DOCS = Path(__file__).parents[2] / "docs"
PROGRESS = Progress(
    batch=4,
    events=1_000,
    events_per_second=250.5,
    watermark=datetime(2024, 1, 1, tzinfo=UTC),
    latest=datetime(2024, 1, 1, 0, 10, tzinfo=UTC),
    open_windows=3,
    state_rows=20,
    state_bytes=4_096,
    late=2,
    rejects=1,
    rows={"trips": 7, "lost": 0},
    vectors=5,
    read=40,
)


@pytest.fixture
def now() -> dict[str, Progress]:
    return {"progress": PROGRESS}


@pytest.fixture
def page(now: dict[str, Progress]) -> Iterator[MetricsPage]:
    served = MetricsPage(lambda: now["progress"], "127.0.0.1", 0)
    yield served
    served.close()


def read(page: MetricsPage) -> dict[tuple[str, str], float]:
    """The samples of the page, by name and query."""
    with urllib.request.urlopen(f"http://{page.address}/metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {(s.name, s.labels.get("query", "")): s.value for f in families for s in f.samples}


def test_prometheus_reads_the_progress_of_the_moment(page: MetricsPage, now: dict[str, Progress]) -> None:
    found = read(page)
    assert found["trendfold_events_total", ""] == 1_000
    assert found["trendfold_rows_total", "trips"] == 7
    assert found["trendfold_watermark_seconds", ""] == 1_704_067_200
    assert found["trendfold_state_bytes", ""] == 4_096
    now["progress"] = replace(PROGRESS, events=1_500, latency_p99_s=0.75)
    found = read(page)
    assert found["trendfold_events_total", ""] == 1_500
    assert found["trendfold_latency_p99_seconds", ""] == 0.75


def test_what_is_not_known_yet_has_no_number(page: MetricsPage, now: dict[str, Progress]) -> None:
    now["progress"] = replace(PROGRESS, watermark=None)
    names = {name for name, _ in read(page)}
    assert "trendfold_latest_event_seconds" in names
    assert not names & {"trendfold_watermark_seconds", "trendfold_latency_p50_seconds"}


def test_opentelemetry_collects_the_same_numbers() -> None:
    reader = InMemoryMetricReader()
    observe(lambda: PROGRESS, MeterProvider([reader]).get_meter("test"))
    data = reader.get_metrics_data()
    assert data is not None
    [scope] = data.resource_metrics[0].scope_metrics
    found = {
        (metric.name, (point.attributes or {}).get("query", "")): point.value
        for metric in scope.metrics
        for point in metric.data.data_points
    }
    assert found["trendfold.events", ""] == 1_000
    assert found["trendfold.rows", "trips"] == 7
    assert found["trendfold.state", ""] == 4_096
    assert ("trendfold.latency_p50", "") not in found


def test_a_port_that_is_taken_is_an_error(page: MetricsPage) -> None:
    host, port = read_address(page.address)
    with pytest.raises(InputError, match=f"metrics cannot be served at {host}:{port}"):
        MetricsPage(lambda: PROGRESS, host, port)


@pytest.mark.parametrize(("text", "address"), [("9464", ("127.0.0.1", 9464)), ("0.0.0.0:1", ("0.0.0.0", 1))])
def test_an_address_is_a_port_or_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize("text", ["", "here", "host:", "a:b"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="write PORT or HOST:PORT"):
        read_address(text)


# ---- Docs ------------------------------------------------------------------------------------------

NAMES = {prometheus_name(metric) for metric in METRICS}


def test_the_docs_name_every_metric_and_no_other() -> None:
    text = (DOCS / "monitoring.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(trendfold_\w+)`", text, re.MULTILINE)) == NAMES
    assert set(re.findall(r"\btrendfold_\w+", text)) <= NAMES


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    dashboard = json.loads((DOCS / "grafana.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(asked) >= 8
    assert {name for text in asked for name in re.findall(r"trendfold_\w+", text)} <= NAMES
