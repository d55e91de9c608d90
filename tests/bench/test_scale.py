"""`trendfold bench scale`: every stage is measured, and the state of a stream is folded."""

from __future__ import annotations

import pytest

from trendfold.bench import run, scale_bench


@pytest.mark.compiled
def test_every_stage_has_its_time_and_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_bench, "QUERIES", (1, 3))
    report = run("scale", scale=0.02, repeats=1)
    told = "\n".join(report.notes)
    assert [line.events for line in report.measurements].count(20_000) == len(report.measurements) - 1
    for stage in ("read Parquet", "read CSV", "sort and fold, 3 queries", "pack for a shuffle"):
        assert f"{stage}: " in told
    assert "parse and plan 3 queries: " in told
    for what in ("Arrow: 28.0 bytes", "parquet: ", "packed for a shuffle: "):
        assert what in told


def test_the_state_of_a_dense_key_is_folded_and_does_not_grow_with_events() -> None:
    sizes = []
    for events in (50_000, 100_000):
        data = scale_bench.StageData(0, events)
        scale_bench._absorb(data, 1)
        sizes.append(data.bytes_of["state per key and open window, 1 query"])
    assert sizes[1] < 1.5 * sizes[0] < 200
