"""Prefix counters, marks and snapshots: the paper's examples number for number, and long random streams.

The examples' figures are read in the middle of the fold, so windows are read after every event, not only
where a sequence is whole.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.kernel.program import Events, Folded
from trendfold.papers.aseq.kernel import fold_prefixes, most_marks
from trendfold.papers.aseq.lower import lower_prefixes
from trendfold.papers.aseq.marks import Marked, PrefixProgram
from trendfold.papers.aseq.plan import line_of
from trendfold.papers.aseq.prefixes import Cuts, ExpiryFamily, share_prefixes
from trendfold.papers.aseq.run import no_marks, stops_of
from trendfold.plan.carried import Carried
from trendfold.runtime.windows import Items


@dataclass(frozen=True)
class Run:
    """Lines after a fold: what their counters and snapshots hold, and what was read after every row."""

    family: ExpiryFamily
    program: PrefixProgram
    state: Marked
    read: list[list[float]]
    """Per member the count of its window after every row."""

    def counters(self, word: str) -> dict[int, float]:
        """Per active mark, by the time of its first START event, the count of a prefix."""
        for t, tree in enumerate(self.family.trees):
            for node in range(len(tree.nodes)):
                if "".join(str(tree.nodes[n].step.element) for n in tree.path(node)) == word:
                    marks = range(self.state.head[t], self.state.tail[t])
                    entry = self.program.entry_start[t] + node
                    return {int(self.state.begin[t, k]) + 1: self.state.mantissa[entry, k] for k in marks}
        raise AssertionError(f"no counter for {word}")

    def snapshot(self, link: int, begun: int) -> dict[int, float]:
        """The rows of the snapshot of the event at time `begun`, by the time of each tag's START event."""
        into, origin = self.family.links[link].into, self.program.origin[link]
        mark = next(k for k in range(self.state.tail[into]) if self.state.begin[into, k] + 1 == begun)
        slots, tags = int(self.state.slots[link]), int(self.state.tags[link])
        slot = (self.state.base[into] + mark) % slots
        at = self.state.snap_at[self.program.out_start[link]]
        found, after = {}, 0.0
        for k in range(self.state.tail[origin] - 1, self.state.head[origin] - 1, -1):
            tag = self.state.base[origin] + k
            if tag < self.state.ends[link, slot]:
                total = self.state.snap[at + ((tag % tags // 8) * slots + slot) * 8 + tag % tags % 8]
                found[int(self.state.begin[origin, k]) + 1] = total - after  # rows are sums from the last on
                after = total
        return found


def folded(
    patterns: Sequence[str | list[str]],
    stream: str,
    window: int,
    cuts: Cuts | None = None,
    *,
    until: int | None = None,
    wide: bool = False,
) -> Run:
    """Fold one event a second, from second 1 `until` some time; windows hold the last `window` seconds.

    START events share a mark where no window that is read, also later, begins between them, so the windows of
    the whole stream are handed over in any case.
    """
    plans = [
        tf.parse(f"RETURN COUNT(*) PATTERN SEQ({', '.join(p)}) WITHIN 1 s").plan("aseq")[0] for p in patterns
    ]
    lines = [line_of(plan) for plan in plans]
    [family] = share_prefixes(lines, cuts or dict.fromkeys(range(len(lines)), ())).families
    automata = [plan.operands[0].machine.automaton for plan in plans]
    types = sorted(set(stream))
    alphabet = [tuple(automaton.called(name) for automaton in automata) for name in types]
    n = len(stream)
    high = np.arange(1, n + 1)
    low = np.maximum(0, high - window)
    items = [Items(np.zeros(n, np.int32), high, low, high) for _ in lines]
    program = lower_prefixes(family, [Carried()] * len(lines), Carried(), alphabet)
    stops = stops_of(items, [1] * len(lines), [0] * len(lines), program.links, n)
    symbol = np.array([types.index(name) for name in stream], np.int32)
    nothing = np.zeros((n, 0))
    events = Events(symbol, np.arange(n, dtype=np.int32), nothing, nothing, True, np.zeros(0))
    segment = np.array([0, until or n])
    state = no_marks(program, most_marks(symbol, events.moment, segment, stops, program), wide=wide)
    out = Folded(np.zeros(n * len(lines)), np.zeros(n * len(lines), np.int32), np.zeros(0))
    fold_prefixes(events, segment, stops, program, state, out)
    return Run(family, program, state, out.mantissa.reshape(len(lines), n).tolist())


FOREVER = 1_000


def test_example_2_the_count_of_a_prefix_is_added_to_that_of_the_longer() -> None:
    before, after = folded(["ABCD"], "AABA", FOREVER), folded(["ABCD"], "AABAB", FOREVER)
    # All START events expire together, so they share one mark.
    assert before.counters("A") == {1: 3}
    assert before.counters("AB") == {1: 2}
    assert after.counters("AB") == {1: 3 + 2}
    assert (after.counters("A"), after.counters("ABC")) == ({1: 3}, {1: 0})


EXAMPLE_3 = "ABCACBDCAD"


def test_example_3_counters_expire_with_their_start_event() -> None:
    at = {t: folded(["ABCD"], EXAMPLE_3 + "X" * 7, 7, until=t) for t in range(1, 11)}
    assert at[4].counters("ABC") == {1: 1, 4: 0}
    assert at[7].counters("ABCD") == {1: 2, 4: 0}
    assert at[7].read[0][:7] == [0, 0, 0, 0, 0, 0, 2]  # 2 of a1, 0 of a2
    assert at[8].counters("ABCD") == {4: 0}  # a1 is purged
    assert at[8].read[0][7] == 0  # "the output would be 0 instead of 2"
    assert at[10].read[0][9] == 1


def test_example_3_as_a_query() -> None:
    events = pa.table({"type": list(EXAMPLE_3), "ts": list(range(1, 11))})
    rows = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B, C, D) WITHIN 7 s").run(events, strategy="aseq")["q1"]
    assert [(row["window_end"], row["count"]) for row in rows.to_pylist()] == [(7, 2), (10, 1)]


def test_example_4_a_negative_event_resets_the_prefix_before_it() -> None:
    pattern = ["A", "B", "NOT C", "D"]
    before, after = folded([pattern], "ABDAB", FOREVER), folded([pattern], "ABDABC", FOREVER)
    assert (before.counters("AB"), after.counters("AB")) == ({1: 3}, {1: 0})
    for kept in ("A", "ABD"):
        assert before.counters(kept) == after.counters(kept) != {1: 0}
    assert folded([pattern], "ABCABD", FOREVER).read[0][-1] == 2  # <a1, b1, d1> is not counted


def test_example_5_partitions_have_counters_of_their_own() -> None:
    events = pa.table(
        {"type": list("AAAABBBCCDDD"), "ts": list(range(1, 13)), "id": [1, 2, 3, 1, 1, 2, 3, 1, 2, 1, 2, 3]}
    )
    query = "RETURN COUNT(*) PATTERN SEQ(A, B, C, D) WHERE A.id = B.id = C.id = D.id {} WITHIN 20 s"
    whole = tf.parse(query.format("")).run(events, strategy="aseq")["q1"].to_pylist()
    assert [(row["window_end"], row["count"]) for row in whole] == [(10, 2), (11, 3), (12, 3)]
    grouped = tf.parse(query.format("GROUP BY id").replace("COUNT(*)", "id, COUNT(*)"))
    rows = grouped.run(events, strategy="aseq")["q1"].to_pylist()
    assert [(row["id"], row["window_end"], row["count"]) for row in rows] == [(1, 10, 2), (2, 11, 1)]


def test_example_7_one_update_serves_all_queries_with_a_prefix() -> None:
    run = folded(["ABCD", "ABE", "ABCDFG", "ABCDHI"], "ABCDEFGHI", FOREVER)
    assert len(run.family.trees[0].nodes) == 9
    assert [int(run.program.op_start[i + 1] - run.program.op_start[i]) for i in range(2)] == [
        0,
        1,
    ]  # of A, of B
    assert [counts[-1] for counts in run.read] == [1, 1, 1, 1]


EXAMPLE_8 = "ABCABDCADE"


def test_example_8_snapshots_of_the_first_piece() -> None:
    stream, cut = EXAMPLE_8 + "X" * 9, {0: (3,)}
    first = folded(["ABCDE"], stream, 9, cut, until=6)
    assert (first.counters("AB"), first.counters("ABC")) == ({1: 2, 4: 1}, {1: 1, 4: 0})
    assert first.snapshot(0, begun=6) == {1: 1, 4: 0}
    assert first.counters("DE") == {6: 0}
    second = folded(["ABCDE"], stream, 9, cut, until=9)
    assert second.counters("ABC") == {1: 3, 4: 1, 8: 0}
    assert second.snapshot(0, begun=9) == {1: 3, 4: 1, 8: 0}
    last = folded(["ABCDE"], stream, 9, cut, until=10)
    assert last.counters("DE") == {6: 1, 9: 1}
    assert last.read[0][9] == 1  # a1 has expired: 1 x 0 of d1, and 1 x 1 + 0 x 1 of d2
    assert last.snapshot(0, begun=9) == {4: 1, 8: 0}


def test_example_9_snapshots_of_snapshots() -> None:
    run = folded(["ABCDEFG"], "AABCDCDEFG" + "X" * 12, 12, {0: (3, 5)}, until=10)
    first, second = range(2)
    assert run.family.links[second].before == first
    assert run.counters("DE") == {5: 1, 7: 1}
    assert run.snapshot(first, begun=5) == {1: 1, 2: 1}
    assert run.snapshot(first, begun=7) == {1: 2, 2: 2}
    # "the overall count of tag a2 by adding the count 1 on d1's PreCntr to the count 2 on d2's PreCntr"
    assert run.snapshot(second, begun=9) == {1: 1 + 2, 2: 1 + 2}
    assert run.read[0][9] == 6


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_long_streams_are_counted_as_by_hand_however_lines_are_chopped(seed: int, wide: bool) -> None:
    """Columns are used up and marks move to the front; slots and tags of snapshots come around."""
    rng = random.Random(seed)
    patterns = ["".join(rng.choices("ABCD", k=rng.randint(2, 6))) for _ in range(3)]
    stream = "".join(rng.choices("ABCDX", k=300))
    window = rng.choice([5, 15, 40])
    cuts: Cuts = {
        member: tuple(i for i in range(1, len(pattern)) if rng.random() < 0.4)
        for member, pattern in enumerate(patterns)
    }
    run = folded(patterns, stream, window, cuts, wide=wide)
    for pattern, found in zip(patterns, run.read, strict=True):
        assert found == [counted(pattern, stream[max(0, t - window) : t]) for t in range(1, len(stream) + 1)]


def counted(pattern: str, events: str) -> int:
    """Dynamic prefix counting of one window."""
    counts = [1] + [0] * len(pattern)
    for event in events:
        for i in range(len(pattern), 0, -1):
            if pattern[i - 1] == event:
                counts[i] += counts[i - 1]
    return counts[-1]


def test_start_events_that_expire_together_share_a_mark() -> None:
    assert len(folded(["AB"], "AAAAAA", FOREVER).counters("A")) == 1
    assert len(folded(["AB"], "AAAAAAXX", 3, until=6).counters("A")) == 3
