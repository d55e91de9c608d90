"""What of the peers needs no peer: the stream on which definitions agree, and how answers are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trendfold.api import parse
from trendfold.bench.harness import Measurement, Report, UnfinishedError
from trendfold.bench.peers import counts_of, notes, plot, text
from trendfold.bench.peers.aligned_stream import HALF_S, WINDOW_S, known_counts, stream
from trendfold.bench.peers.process import FOLDER, Peer, Program, counts, found_peers
from trendfold.errors import InputError


def test_a_window_of_a_key_has_one_a_then_all_b_then_one_c() -> None:
    found = stream(0, 400, 4)
    key, at, kind, _ = found.numbers.T
    for window in np.unique(at // (WINDOW_S * 1_000)):
        for each in np.unique(key):
            own = kind[(key == each) & (at // (WINDOW_S * 1_000) == window)]
            assert own[own != 3].tolist() in ([0, 1, 1, 1, 1, 2], [])
    assert (at % (WINDOW_S * 1_000) < HALF_S * 1_000).all()
    assert (np.diff(at) >= 0).all()
    assert (kind == 3).any()


def test_events_of_a_key_are_never_tied() -> None:
    key, at, _, _ = stream(1, 2_000, 5).numbers.T
    assert len(set(zip(key, at, strict=True))) == len(key)


@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_counts_are_those_that_every_definition_gives(semantics: str) -> None:
    """Under any all choices of B, under next one trend, and one under contiguous if no D is in between."""
    found = stream(2, 300, 3)
    key, at, kind, x = found.numbers.T
    expected = []
    for query in range(2):
        for window in np.unique(at // (WINDOW_S * 1_000)):
            for each in np.unique(key):
                here = (key == each) & (at // (WINDOW_S * 1_000) == window)
                if not here.any() or x[here][kind[here] == 0][0] == query:
                    continue
                if semantics == "contiguous" and (kind[here] == 3).any():
                    continue
                expected.append((query, window, each, 7 if semantics == "any" else 1))
    result = parse(text(semantics, 2)).run(found.table, time_unit="ms")
    assert counts_of(result).tolist() == sorted(map(list, expected))
    assert known_counts(found, semantics, 2).tolist() == sorted(map(list, expected))


def test_answers_of_a_peer_are_rows_in_order() -> None:
    sent = np.array([1, 0, 0, 5, 0, 2, 1, 9, 0, 2, 0, 3], ">i8")
    assert counts(sent).tolist() == [[0, 2, 0, 3], [0, 2, 1, 9], [1, 0, 0, 5]]


def test_after_a_length_that_was_given_up_longer_ones_are_not_begun(tmp_path: Path) -> None:
    peer = Peer("Slow", Program("Nothing", tmp_path, tmp_path), "m", ("any",))
    peer.given_up["any", 1] = 10, "not finished in 30 s"
    with pytest.raises(UnfinishedError, match="not begun: 10 B were not finished in 30 s"):
        peer.ask("any", 1, stream(0, 100, 15))


def test_without_peers_the_way_to_them_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    with pytest.raises(InputError, match="make bench-peers"):
        found_peers()


def test_the_last_point_that_was_finished_is_told() -> None:
    lines = [
        Measurement("trendfold, any, 5 B, 1 query", 9, (1.0,), 0),
        Measurement("Flink CEP, any, 5 B, 1 query", 9, (10.0,), 0, "trendfold, any, 5 B, 1 query", 0.1),
        Measurement("Flink CEP, any, 10 B, 1 query", 9, (), 0, unfinished="not finished in 30 s"),
    ]
    report = Report("peers", tuple(lines), {}, {})
    assert "Flink CEP, any: last finished: 5 B" in notes(report)
    assert "Flink CEP" in plot(report)
