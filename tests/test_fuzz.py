"""Damaged queries and files are answered or refused in words; `make chaos` tries many more."""

from __future__ import annotations

import pytest

from chaos.fuzz import faults


@pytest.mark.parametrize(("what", "count"), [("queries", 150), ("files", 150)])
def test_damaged_input_is_answered_or_refused_in_words(what: str, count: int) -> None:
    found = [f"{number}: {fault}" for number, fault in faults(what, 0, range(count)) if fault is not None]
    assert not found, "\n".join(found)
