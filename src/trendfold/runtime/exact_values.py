"""Exact arbitrary-size COUNT, and SUM of integers and decimals, for the rows of a result (spec 9).

A decimal is summed as an unscaled integer and gets its point back at the end.

The wide fold has already run. It determines which rows exist and how large their numbers are, and so how many
digits each window item needs; only the items of the requested rows are folded again.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END, START
from trendfold.errors import LimitError
from trendfold.events.batch import EventBatch
from trendfold.events.columns import decoded, scale_of, unscaled
from trendfold.events.schema import Kind
from trendfold.kernel import exact, wide
from trendfold.kernel.bindings import most_kept
from trendfold.kernel.lower import (
    SEMANTICS,
    list_numbers,
    lower_frame,
    lower_guards,
    lower_paths,
    lower_rows,
    lower_steps,
    value_columns,
)
from trendfold.kernel.program import Events, Folded
from trendfold.plan import OperandPlan, QueryPlan
from trendfold.plan.carried import Carried, Measure, Number, numbers_of, positions_of
from trendfold.query.nodes import Aggregate, Function, OfTrend
from trendfold.runtime.compared import compared_rows, end_guard, latest_of, pairs_of
from trendfold.runtime.folds.by_building import TrendsToBuild
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.values import in_unit, no_trends
from trendfold.runtime.windows import Items

MOST_BITS = 1_000_000
"""The largest number that `arithmetic="exact"` computes."""

_BLOCK = 1 << 23
"""The most digits decoded at once."""

_WHOLE_DOUBLES = 2.0**53
EXACT_BITS = 52
"""Sums of absolute values below so many bits are exact in doubles, and so is every partial sum."""
NEAR = 1e-9
"""The relative error of a wide number, with respect to the sum of absolute values."""

Whole = NDArray[np.object_]
"""An array of Python integers."""


def is_whole(wanted: Aggregate, batch: EventBatch) -> bool:
    """Whether an aggregate is a whole number: COUNT, or SUM of an integer attribute or of LENGTH."""
    if wanted.function is Function.SUM and wanted.of is not None:
        return wanted.of is OfTrend.LENGTH
    if wanted.function is Function.SUM:
        return batch.schema[wanted.attribute or ""] is Kind.INTEGER
    return wanted.function is Function.COUNT and not wanted.log2


def digits_after_point(wanted: Aggregate, batch: EventBatch) -> int | None:
    """The decimal places of a SUM of decimals; None for any other aggregate."""
    if wanted.function is not Function.SUM or wanted.of is not None:
        return None
    return scale_of(batch.table.schema.field(wanted.attribute or "").type)


@dataclass(frozen=True)
class Exact:
    """A query whose wide fold is done, ready to compute exact numbers for some of its rows.

    `of_item` names the row of each window item, -1 for none; `totals` are the wide numbers of the rows.
    """

    plan: QueryPlan
    rows: Rows
    items: Items
    events: tuple[Events, ...]
    batch: EventBatch
    limits: Limits
    folded: tuple[Folded, ...]
    of_item: NDArray[np.int64]
    totals: tuple[Folded, ...]

    def values(self, wanted: Sequence[Aggregate], some: NDArray[np.bool_]) -> dict[Aggregate, Whole]:
        """Exact values of aggregates in the rows where `some` holds; raises LimitError beyond MOST_BITS."""
        if not some.any():
            return {aggregate: np.empty(0, object) for aggregate in wanted}
        if not wanted:
            return {}
        slots = {aggregate: self._slot(aggregate) for aggregate in wanted}
        self._check_size([self.bits(aggregate)[some] for aggregate in wanted], slack=66)
        taken = np.flatnonzero((self.of_item >= 0) & some[self.of_item] & self._has_trends())
        place = np.cumsum(some) - 1
        found = {aggregate: np.full(int(some.sum()), 0, object) for aggregate in wanted}
        needed = [sorted({s for i, s in slots.values() if i == n}) for n in range(len(self.plan.operands))]
        if len(needed) > 1 or not any(needed):
            needed = [sorted({0, *some_slots}) for some_slots in needed]
        bits = [self._most_bits(number, chosen, taken) for number, chosen in enumerate(needed)]
        for low, high in pairwise(_blocks(sum(bits, np.zeros(len(taken))), max(map(len, needed)))):
            block = taken[low:high]
            parts = [
                dict(zip(chosen, self._fold(number, chosen, block, bits[number][low:high]), strict=True))
                for number, chosen in enumerate(needed)
            ]
            rows = place[self.of_item[block]]
            for aggregate, (number, slot) in slots.items():
                product = parts[number][slot]
                for other, part in enumerate(parts):
                    if other != number:
                        product = product * part[0]
                np.add.at(found[aggregate], rows, product)
        self._check_size([np.array([abs(v).bit_length() for v in values]) for values in found.values()])
        return found

    def integers(self, wanted: Aggregate, some: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int | None]:
        """A whole aggregate as 64-bit integers where `some` holds, and a row that does not fit or None.

        Doubles are exact up to 2^53, and tell without digits what exceeds 2^63 by far.
        """
        doubles, bits = wide.to_double(*self.wide(wanted)), self.bits(wanted)
        large = some & (bits >= EXACT_BITS)
        slack = NEAR * np.exp2(np.minimum(bits, 1000.0))
        huge = large & (np.abs(doubles) - slack >= 2.0**63)
        if huge.any():
            return np.zeros(0, np.int64), int(huge.argmax())
        found = np.where(some & ~large, doubles, 0.0).astype(np.int64)
        exact_values = self.values([wanted], large)[wanted]
        for row, value in zip(np.flatnonzero(large).tolist(), exact_values.tolist(), strict=True):
            if not -(2**63) <= value < 2**63:
                return found, row
            found[row] = value
        return found, None

    def wide(self, wanted: Aggregate) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The wide numbers of a COUNT or a SUM, row by row."""
        number, slot = self._slot(wanted)
        return in_unit(self.totals[number].mantissa[:, slot], wanted.of), self.totals[number].exponent[
            :, slot
        ]

    def bits(self, wanted: Aggregate) -> NDArray[np.float64]:
        """An upper bound on an aggregate's size in bits, row by row."""
        return self._bits(self.totals, *self._slot(wanted))

    def is_null(self, wanted: Aggregate) -> NDArray[np.bool_]:
        """Where an aggregate is null: a SUM without values, or without trends."""
        number, slot = self._slot(wanted)
        part = self.totals[number].mantissa
        if wanted.function is not Function.SUM:
            return np.zeros(len(part), np.bool_)
        return np.asarray(part[:, 0 if wanted.of else self._present(number, slot)] == 0)

    def _present(self, number: int, slot: int) -> int:
        """The slot that counts the values of a SUM."""
        numbers = self.plan.operands[number].carried.numbers
        summed = numbers[slot - 1]
        return 1 + numbers.index(Number(Measure.PRESENT, summed.positions, summed.attribute))

    def _check_size(self, bits: list[NDArray[Any]], slack: int = 0) -> None:
        most = max((float(b.max(initial=0)) for b in bits), default=0)
        if most > MOST_BITS + slack:
            raise LimitError(
                f"query {self.plan.query.name!r}: a number of about {most:,.0f} bits is over the limit of "
                f"{MOST_BITS:,} bits of arithmetic='exact'; use arithmetic='auto', with LOG2 of the COUNT, "
                f"or shorten WITHIN"
            )

    def _slot(self, wanted: Aggregate) -> tuple[int, int]:
        """The operand and the slot of an aggregate."""
        if wanted.alias is None and wanted.of is None:
            return 0, 0
        for number, operand in enumerate(self.plan.operands):
            if positions := positions_of(wanted, operand.machine.automaton):
                return number, 1 + operand.carried.numbers.index(numbers_of(wanted, positions)[0])
        raise AssertionError(f"no operand has {wanted.alias!r}")

    def _bits(self, folded: tuple[Folded, ...], number: int, slot: int) -> NDArray[np.float64]:
        """An upper bound on a number's size in bits; for a SUM from the number of values and the largest."""
        carried, more = self.plan.operands[number].carried, 0
        if slot and (summed := carried.numbers[slot - 1]).measure is Measure.VALUE:
            slot = self._present(number, slot)
            more = int(self._magnitudes(summed.attribute or "")[0].max(initial=0)).bit_length()
        part = folded[number]
        size: NDArray[np.float64] = np.nan_to_num(wide.log2(part.mantissa[:, slot], part.exponent[:, slot]))
        return size + more

    def _most_bits(self, number: int, chosen: list[int], taken: NDArray[np.int64]) -> NDArray[np.float64]:
        sizes = [self._bits(self.folded, number, slot)[taken] for slot in chosen]
        most: NDArray[np.float64] = np.maximum.reduce([np.zeros(len(taken)), *sizes])
        return most

    def _has_trends(self) -> NDArray[np.bool_]:
        return np.asarray(np.logical_and.reduce([part.mantissa[:, 0] > 0 for part in self.folded]))

    def _fold(
        self, number: int, chosen: list[int], taken: NDArray[np.int64], bits: NDArray[np.float64]
    ) -> list[Whole]:
        """The chosen numbers of one operand in the items `taken`."""
        operand = self.plan.operands[number]
        if operand.builds_trends:
            return self._build(number, chosen, taken)
        carried = Carried(tuple(operand.carried.numbers[slot - 1] for slot in chosen if slot))
        lengths = np.maximum(1, np.ceil((bits + 3) / exact.DIGIT_BITS)).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths * carried.width)])
        out = np.empty(int(starts[-1]), np.uint64)
        self._run(number, operand, carried, taken, lengths, out, starts)
        every = range(carried.width) if 0 in chosen else range(1, carried.width)
        return [_decode(out, starts[:-1] + w * lengths, lengths) for w in every]

    def _run(
        self,
        number: int,
        operand: OperandPlan,
        carried: Carried,
        taken: NDArray[np.int64],
        lengths: NDArray[np.int64],
        out: NDArray[np.uint64],
        starts: NDArray[np.int64],
    ) -> None:
        machine, alphabet, events = operand.machine, self.rows.alphabets[number], self.events[number]
        frame, guards = lower_frame(machine, carried), lower_guards(machine, alphabet)
        items, values = self.items.at(taken), self._values(carried)
        bounds = items.low, items.until, items.high
        if not len(taken):
            return
        if not machine.by_event:
            program, _ = lower_rows(machine, alphabet, carried)
            direct, sizes = exact.in_place(program, guards), lengths
            exact.fold_vectors(events, values, *bounds, sizes, program, direct, guards, frame, out, starts)
            return
        steps, lists = lower_steps(machine, alphabet, carried), list_numbers(machine)
        capacity = most_kept(events, items.low, items.high, steps, np.ones(len(lists), np.bool_))
        size = capacity * len(lists) * carried.width * int(lengths.max()) * exact.DIGIT_BITS // 8
        self.limits.check_state(self.plan.query.name, size, "exact numbers of bindings kept one by one")
        pairs = pairs_of(compared_rows(self.plan, number, self.rows, events.moment, self.batch))
        latest = latest_of(self.plan, number, self.rows, events, pairs, self.limits)
        kept = exact.ExactLists(
            len(lists), capacity, lists.get(START, -1), lists.get(END, -1), end_guard(operand)
        )
        compared, semantics = exact.ExactMachine(steps, guards, pairs, latest), SEMANTICS[machine.semantics]
        exact.fold_bindings(events, values, *bounds, lengths, compared, semantics, frame, kept, out, starts)

    def _values(self, carried: Carried) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Magnitudes and signs of the values, columns as in Events.values."""
        columns = [self._magnitudes(attribute) for _, attribute in value_columns(carried)]
        rows = self.rows.row
        sizes = [np.ones(len(rows), np.uint64), *[size[rows] for size, _ in columns]]
        signs = [np.zeros(len(rows), np.bool_), *[sign[rows] for _, sign in columns]]
        return np.stack(sizes, axis=1), np.stack(signs, axis=1)

    def _magnitudes(self, attribute: str) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Magnitudes and signs of an attribute, unscaled for decimals; null is 0."""
        if scale_of(self.batch.table.schema.field(attribute).type) is None:
            return _whole_values(self.batch, attribute)
        found = unscaled(self.batch.table.column(attribute))
        if found is None:
            raise LimitError(
                f"query {self.plan.query.name!r}: {attribute!r} has decimals of more than 64 bits, beyond "
                f"what arithmetic='exact' adds up; use arithmetic='auto', or decimals of fewer digits"
            )
        return found

    def _build(self, number: int, chosen: list[int], taken: NDArray[np.int64]) -> list[Whole]:
        """The same for strategy 'construct': there are few enough trends for doubles to count exactly.

        Values are split into pieces small enough for doubles to sum exactly, too.
        """
        folded, carried = self.folded[number], self.plan.operands[number].carried
        summed = [s for s in chosen if s and carried.numbers[s - 1].measure is Measure.VALUE]
        sums = dict(zip(summed, self._build_sums(number, summed, taken), strict=True)) if summed else {}
        found = []
        for slot in chosen:
            if slot in sums:
                found.append(sums[slot])
                continue
            self._check_built_size(folded, slot, taken)
            found.append(folded.mantissa[taken, slot].astype(np.int64).astype(object))
        return found

    def _check_built_size(self, folded: Folded, slot: int, taken: NDArray[np.int64]) -> float:
        sizes = wide.to_double(folded.mantissa[taken, slot], folded.exponent[taken, slot])
        most = float(sizes.max(initial=1.0))
        if most >= _WHOLE_DOUBLES:
            raise LimitError(
                f"query {self.plan.query.name!r}: strategy 'construct' is exact up to 2^53 bindings; "
                f"use another strategy, or arithmetic='auto'"
            )
        return most

    def _build_sums(self, number: int, summed: list[int], taken: NDArray[np.int64]) -> list[Whole]:
        operand, alphabet = self.plan.operands[number], self.rows.alphabets[number]
        machine, numbers, events = operand.machine, operand.carried.numbers, self.events[number]
        present = [self._present(number, slot) for slot in summed]
        most = max(self._check_built_size(self.folded[number], slot, taken) for slot in present)
        bits = 53 - int(most).bit_length()
        pieces = -(-64 // bits)
        carried = Carried(tuple(numbers[s - 1] for s in summed))
        paths = lower_paths(machine, alphabet, carried)
        # Column c of the values becomes the columns 1 + (c - 1) · pieces + 0, 1, ...
        column = np.repeat(paths.weight[:, 1:], pieces, axis=1)
        piece = np.tile(np.arange(pieces), len(summed))
        column = np.where(column > 0, 1 + (column - 1) * pieces + piece, column)
        paths = paths._replace(weight=np.hstack([paths.weight[:, :1], column]).astype(np.int32))
        size, sign = self._values(carried)
        cut = [
            ((size[:, [c]] >> np.uint64(p * bits)) & np.uint64((1 << bits) - 1)).astype(np.float64)
            * np.where(sign[:, [c]], -1.0, 1.0)
            for c in range(1, size.shape[1])
            for p in range(pieces)
        ]
        events = events._replace(values=np.hstack([np.ones((len(size), 1)), *cut]))
        pairs = pairs_of(compared_rows(self.plan, number, self.rows, events.moment, self.batch))
        latest = latest_of(self.plan, number, self.rows, events, pairs, self.limits)
        out = no_trends(len(taken), 1 + len(summed) * pieces, 0)
        trends = TrendsToBuild(events, paths, pairs, latest, SEMANTICS[machine.semantics])
        built = trends.build(self.items.at(taken), self.limits.trends, out)
        self.limits.check_trends(self.plan.query.name, built)
        whole = out.mantissa[:, 1:].astype(np.int64).astype(object).reshape(len(taken), len(summed), pieces)
        scale = np.array([1 << (p * bits) for p in range(pieces)], object)
        return [(whole[:, s] * scale).sum(axis=1) for s in range(len(summed))]


def _blocks(bits: NDArray[np.float64], width: int) -> list[int]:
    """Split the items into blocks of a bounded number of digits."""
    digits = np.cumsum((bits / exact.DIGIT_BITS + 3) * width)
    cuts = np.flatnonzero(np.diff(digits // _BLOCK, prepend=0))
    return sorted({0, *[int(c) for c in cuts], len(bits)})


def _whole_values(batch: EventBatch, attribute: str) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Magnitudes and signs of an integer attribute; null is 0."""
    column = batch.column(attribute)
    if column.kind is not Kind.INTEGER:  # unsigned, past 2^63
        data = decoded(batch.table.column(attribute))
        values = pc.fill_null(data.cast(pa.uint64()), 0).to_numpy().astype(np.uint64)
        return values, np.zeros(len(values), np.bool_)
    signed = np.where(column.valid, column.values.astype(np.int64), 0)
    negative = signed < 0
    bits = signed.view(np.uint64)
    return np.where(negative, ~bits + np.uint64(1), bits), negative


def _decode(out: NDArray[np.uint64], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Whole:
    """Decode numbers from their digits (two's complement)."""
    found: Whole = out[starts].view(np.int64).astype(object)
    for k in np.flatnonzero(lengths > 1):
        digits = out[starts[k] : starts[k] + lengths[k]]
        found[k] = int.from_bytes(digits.astype("<u8").tobytes(), "little", signed=True)
    return found


# ---- Decimal digits -------------------------------------------------------------------------------

_SHORT_BITS = 2_000
"""Up to this size `str` always works: sys.set_int_max_str_digits allows at least 640 digits."""

_PIECE_BITS = 8_192


def to_text(number: int) -> str:
    """Decimal text of an integer of any size; `str` has a size limit and is quadratic."""
    if number.bit_length() <= _SHORT_BITS:
        return str(number)
    context = decimal.Context(
        prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[decimal.Inexact]
    )
    powers: dict[int, decimal.Decimal] = {}

    def power(bits: int) -> decimal.Decimal:
        if bits not in powers:
            half = bits // 2
            powers[bits] = (
                context.multiply(power(half), power(bits - half))
                if bits > _PIECE_BITS
                else decimal.Decimal(1 << bits)
            )
        return powers[bits]

    def convert(whole: int, bits: int) -> decimal.Decimal:
        if bits <= _PIECE_BITS:
            return decimal.Decimal(whole)
        low = bits // 2
        high = whole >> low
        return context.add(
            context.multiply(convert(high, bits - low), power(low)), convert(whole - (high << low), low)
        )

    digits = format(convert(abs(number), number.bit_length()), "f")
    return f"-{digits}" if number < 0 else digits


def to_decimal_text(number: int, scale: int) -> str:
    """Decimal text of an unscaled integer with `scale` decimal places."""
    if scale <= 0:
        return to_text(number * 10**-scale)
    digits = to_text(abs(number)).rjust(scale + 1, "0")
    return f"{'-' * (number < 0)}{digits[:-scale]}.{digits[-scale:]}"
