"""Find errors in a query: in its structure (`check`), and in its columns and types (`check_columns`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import dropwhile, takewhile

from trendfold.errors import NOWHERE, Problem, Span, nearest
from trendfold.events.schema import Kind, Schema
from trendfold.query.names import (
    PredicateKind,
    beside_nots,
    can_avoid,
    can_be_empty,
    children,
    columns,
    default_column,
    extent,
    having_value,
    kind,
    named,
    positions,
    refs,
    sides,
    stands_for,
    walk,
)
from trendfold.query.nodes import (
    EVENT_TIME,
    Aggregate,
    Attribute,
    Between,
    Binary,
    Both,
    Compare,
    Duration,
    Either,
    EventRef,
    Expression,
    Function,
    GroupKey,
    In,
    Instant,
    IsNull,
    Like,
    Literal,
    Logic,
    Matches,
    Not,
    Pattern,
    Plus,
    Query,
    Semantics,
    Seq,
    TypeSet,
    Unary,
    Window,
    WindowUnit,
    type_set,
)
from trendfold.query.partitions import partition_attributes
from trendfold.query.printer import expression_text, quoted

MAX_POSITIONS = 1_000


def check(query: Query) -> list[Problem]:
    """All problems that can be found without data; the first is the one to show."""
    if too_large := _located(query, _size(query)):
        return too_large  # the other checks may take long then
    rules = (_pattern, _where, _group_by, _returns, _having, _window)
    return _located(query, (problem for rule in rules for problem in rule(query)))


def check_condition(condition: Expression, schema: Schema) -> list[Problem]:
    """The problems of a condition on the columns of one row."""
    nowhere = Query("", (), EventRef(""))
    found = [problem for node in walk(condition) for problem in _node_types(nowhere, schema, node)]
    return [*found, *_boolean(nowhere, schema, condition)]


def check_columns(query: Query, schema: Schema) -> list[Problem]:
    """All problems with the columns a query names and their types."""
    rules = (_key_types, _condition_types, _return_types)
    return _located(query, (problem for rule in rules for problem in rule(query, schema)))


def _located(query: Query, problems: Iterable[Problem]) -> list[Problem]:
    """The distinct problems with their query; those without a span point to its beginning."""
    start = Span(query.span.start, query.span.start + 1) if query.text else NOWHERE
    spans = ((problem, start if problem.span == NOWHERE else problem.span) for problem in problems)
    found = (replace(problem, query=query.name, text=query.text, span=span) for problem, span in spans)
    return list(dict.fromkeys(found))


def _find(query: Query, what: str) -> Span:
    """The span of text that no node records; `what` is a regular expression with one group."""
    text = query.text[: query.span.end]
    found = re.compile(what, re.IGNORECASE).search(text, query.span.start)
    return Span(*found.span(1)) if found else NOWHERE


# ---------------------------------------------------------------- PATTERN


def _size(query: Query) -> Iterator[Problem]:
    if (count := positions(query.pattern)) > MAX_POSITIONS:
        size = f"{count:,}" if count < 10**9 else "more than a billion"
        message = f"the pattern has {size} positions; the limit is {MAX_POSITIONS:,}"
        yield Problem(message, span=extent(query.pattern))


def _pattern(query: Query) -> Iterator[Problem]:
    pattern = query.pattern
    yield from _aliases(pattern)
    yield from _conjunctions(query)
    yield from _negations(pattern)
    for operand in _operands(pattern):
        if can_be_empty(operand):
            hint = "let at least one event be required, as with '+' in place of '*'"
            yield Problem("the pattern accepts the empty sequence", span=extent(operand), hint=hint)


def _aliases(pattern: Pattern) -> Iterator[Problem]:
    occurrences = refs(pattern)
    types = {name for ref, _ in occurrences for name in type_set(ref.type).names or ()}
    first: dict[str, bool] = {}
    for ref, is_negated in occurrences:
        if ref.alias is None:
            continue
        if ref.alias != ref.type and ref.alias in types:
            message = (
                f"the alias {ref.alias!r} of {str(ref.type)!r} is the name of another type in the pattern"
            )
            yield Problem(message, span=ref.span, hint="choose another alias")
        if first.setdefault(ref.alias, is_negated) != is_negated:
            message = f"the alias {ref.alias!r} refers to both negated and positive events"
            yield Problem(message, span=ref.span, hint="choose another alias for one of them")


def _operands(pattern: Pattern) -> tuple[Pattern, ...]:
    """The operands of an outermost AND, or the whole pattern."""
    return pattern.parts if isinstance(pattern, Both) else (pattern,)


def _negations(pattern: Pattern) -> Iterator[Problem]:
    """NOT must be in a SEQ, between non-empty elements or at an end of an outermost SEQ."""
    outermost = [id(operand) for operand in _operands(pattern)]
    operands = {id(part) for node in walk(pattern) if isinstance(node, Both) for part in node.parts}
    placed: set[int] = set()
    for node in walk(pattern):
        if isinstance(node, Seq):
            placed.update(id(part) for part in node.parts if isinstance(part, Not))
            yield from _negations_in(node, id(node) in outermost)
        elif isinstance(node, Not):
            if id(node) in operands:
                message = "NOT is an operand of AND, which combines events"
                hint = "say where none may be: AND(SEQ(NOT A, B), C), or SEQ(AND(B, C), NOT A)"
                yield Problem(message, span=Span(node.span.start, extent(node.body).end), hint=hint)
            elif id(node) not in placed:
                yield Problem("NOT is only allowed in a SEQ", span=node.span, hint="as in SEQ(A, NOT B, C)")
            yield from _negated_body(node)


def _negations_in(seq: Seq, is_outermost: bool) -> Iterator[Problem]:
    for i, part in enumerate(seq.parts):
        if not isinstance(part, Not):
            continue
        sides = [tuple(dropwhile(_is_not, side)) for side in (seq.parts[:i][::-1], seq.parts[i + 1 :])]
        if not all(sides) and not is_outermost:
            where = "first" if not sides[0] else "last"
            message = f"NOT is {where} in a SEQ that is not the outermost one"
            yield Problem(message, span=part.span, hint="put it between two events, or in the outermost SEQ")
        if any(_is_blank(side) for side in sides if side):
            yield beside_empty(part)


def _is_not(part: Pattern) -> bool:
    return isinstance(part, Not)


def _is_blank(side: tuple[Pattern, ...]) -> bool:
    """Whether everything between a NOT and the next NOT, or the end, can be empty."""
    return all(map(can_be_empty, takewhile(lambda part: not _is_not(part), side)))


def beside_empty(negation: Not) -> Problem:
    """A neighbour of NOT can be empty. The builder uses this too: it sees nested SEQs as written."""
    hint = "its neighbours must take at least one event"
    return Problem("NOT is next to a pattern that can be empty", span=negation.span, hint=hint)


def _negated_body(negation: Not) -> Iterator[Problem]:
    allowed = (EventRef, Seq, Plus, Either)
    if any(not isinstance(node, allowed) for node in walk(negation.body)):
        message = "NOT takes a type, or a pattern of SEQ, + and OR over types"
        yield Problem(message, span=Span(negation.span.start, extent(negation.body).end))


def _conjunctions(query: Query) -> Iterator[Problem]:
    """AND must be outermost; with MATCHES it may also be inside a SEQ (spec 7 and 8)."""
    pattern, is_loose = query.pattern, isinstance(query.returns, Matches)
    places = {id(pattern)}
    for node in walk(pattern):
        if is_loose and isinstance(node, Seq) and id(node) in places:
            places.update(map(id, node.parts))
        if not isinstance(node, Both):
            continue
        if is_loose:
            places.update(map(id, node.parts))
        if id(node) not in places:
            where = "outermost or in a SEQ" if is_loose else "outermost in a query that aggregates"
            yield Problem(f"AND is only allowed {where}", span=extent(node))
        elif node is not pattern:
            yield from _free_conjunction(query, node)
            yield from (_empty_operand(p) for p in node.parts if can_be_empty(p) and not _is_not(p))
        elif not is_loose or any(_free_conjunction(query, node)):
            yield from _independent_operands(query, node)


def _empty_operand(operand: Pattern) -> Problem:
    return Problem("an operand of AND accepts the empty sequence", span=extent(operand))


def _free_conjunction(query: Query, both: Both) -> Iterator[Problem]:
    """AND interleaves its operands only under skip-till-any-match and without NEXT on them."""
    if query.semantics is not Semantics.ANY:
        message = f"AND in a SEQ needs {Semantics.ANY}, not {query.semantics}"
        yield Problem(message, span=extent(both))
    inside = [ref for ref, _ in refs(both)]
    for conjunct in query.where:
        names = {name for name, _ in named(conjunct)}
        if kind(conjunct) is PredicateKind.ADJACENCY and any(stands_for(r, n) for r in inside for n in names):
            yield Problem("NEXT names an operand of AND", span=extent(conjunct))


def _independent_operands(query: Query, both: Both) -> Iterator[Problem]:
    """Operands matched independently must not share a type or a predicate."""
    before: list[tuple[int, TypeSet]] = []
    for i, part in enumerate(both.parts):
        for ref, _ in refs(part):
            own = type_set(ref.type)
            if any(k != i and own.meets(other) for k, other in before):
                text = (
                    f"the type {ref.type!r} is" if isinstance(ref.type, str) else f"a type of {ref.type} is"
                )
                yield Problem(f"{text} in two operands of AND", span=ref.span)
            before.append((i, own))
    for conjunct in query.where:
        names = {name for name, _ in named(conjunct)}
        if len(names) == 2 and names <= set(sides(both)) and not _together(both.parts, names):
            yield Problem("a predicate links two operands of AND", span=extent(conjunct))


def _together(patterns: Iterable[Pattern], names: set[str]) -> bool:
    """Whether one of the patterns has positions for all of the names."""
    return any(names <= set(sides(pattern)) for pattern in patterns)


# ---------------------------------------------------------------- names of events


def _unknown(known: Collection[str], name: str, span: Span) -> Iterator[Problem]:
    if name not in known:
        listed = ", ".join(map(quoted, list(known)[:5])) + (", ..." if len(known) > 5 else "")
        has = f"the pattern has {listed}" if known else "give ANY an alias, as in ANY x"
        hint = nearest(name, known) or has
        yield Problem(f"unknown alias {name!r}", span=span, hint=hint)


def _positive(query: Query, name: str, span: Span, what: str) -> Iterator[Problem]:
    """Aggregates and groups must name positive events only."""
    known = sides(query.pattern)
    match sorted(known.get(name, ())):
        case [True]:
            yield Problem(f"{what} {name!r}, which is negated", span=span)
        case [False, True]:
            yield _mixed(name, span)
        case []:
            yield from _unknown(known, name, span)


def _mixed(name: str, span: Span) -> Problem:
    message = f"{name!r} refers to both negated and positive events"
    return Problem(message, span=span, hint="give the ones you mean an alias of their own")


# ---------------------------------------------------------------- WHERE


def _where(query: Query) -> Iterator[Problem]:
    known = sides(query.pattern)
    nots = tuple(beside_nots(query.pattern))
    for conjunct in query.where:
        problems = list(_names_in_where(query, known, conjunct))
        yield from problems or _predicate(known, nots, conjunct)


def _names_in_where(query: Query, known: Collection[str], conjunct: Expression) -> Iterator[Problem]:
    words = set(_compared_words(conjunct))
    for node in walk(conjunct):
        match node:
            case Aggregate():
                message = f"the aggregate {expression_text(node)} is not allowed in WHERE"
                yield Problem(message, span=node.span, hint="put conditions on aggregates in HAVING")
            case Attribute(None, name):
                hint = f"write whose it is, as in {quoted(next(iter(known), 'x'))}.{quoted(name)}"
                if query.text[node.span.start : node.span.start + 1] == '"':
                    hint = f"strings take single quotes: {expression_text(Literal(name))}; or {hint}"
                elif node in words:
                    hint = f"quotes are missing: {expression_text(Literal(name))}; or {hint}"
                yield Problem(f"the attribute {name!r} has no alias", span=node.span, hint=hint)
            case Attribute(str(alias)):
                yield from _unknown(known, alias, node.span)


def _compared_words(conjunct: Expression) -> Iterator[Expression]:
    """The bare names an attribute is compared with: perhaps strings with missing quotes."""
    for node in walk(conjunct):
        match node:
            case Compare(_, Attribute(str()), Attribute(None) as word):
                yield word
            case In(Attribute(str()), items):
                yield from (item for item in items if isinstance(item, Attribute) and item.alias is None)


def _predicate(
    known: Mapping[str, frozenset[bool]], nots: BesideNots, conjunct: Expression
) -> Iterator[Problem]:
    span, names = extent(conjunct), {name for name, _ in named(conjunct)}
    match kind(conjunct):
        case None:
            yield _no_meaning(conjunct, span)
        case PredicateKind.ADJACENCY | PredicateKind.CROSS:
            mixed = [name for name in sorted(names) if len(known[name]) == 2]
            is_negated = {side for name in names for side in known[name]}
            if mixed:
                yield _mixed(mixed[0], span)
            elif len(is_negated) == 2:
                yield from _beside_not(known, nots, conjunct)
            elif True in is_negated and not _together((node.body for node, _ in nots), names):
                yield Problem("the predicate names events of two different NOTs", span=span)


BesideNots = Collection[tuple[Not, tuple[EventRef, ...]]]
"""NOTs, each with the events that can be next to it."""


def _beside_not(
    known: Mapping[str, frozenset[bool]], nots: BesideNots, conjunct: Expression
) -> Iterator[Problem]:
    """A condition between a negated and a positive event: of a NOT of one type, and an event next to it."""
    span, names = extent(conjunct), sorted(name for name, _ in named(conjunct))
    negated, other = sorted(names, key=lambda name: True not in known[name])
    own = [pair for pair in nots if any(stands_for(ref, negated) for ref, _ in refs(pair[0].body))]
    if kind(conjunct) is PredicateKind.ADJACENCY:
        message = f"NEXT compares {negated!r}, which is negated, with {other!r}, which is not"
        yield Problem(message, span=span, hint="leave NEXT out: the condition is judged next to the NOT")
    elif any(not isinstance(node.body, EventRef) for node, _ in own):
        message = f"the NOT of {negated!r} is a pattern, so a condition cannot compare it with {other!r}"
        yield Problem(message, span=span, hint="only the event of a NOT of one type can be compared so")
    elif not any(stands_for(ref, other) for _, beside in own for ref in beside):
        listed = list(dict.fromkeys(str(ref.alias or ref.type) for _, beside in own for ref in beside))
        message = f"{other!r} is never next to the NOT of {negated!r}"
        yield Problem(message, span=span, hint=f"next to it {_are(listed)}")


def _are(names: list[str]) -> str:
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(map(quoted, names))}"


def _no_meaning(conjunct: Expression, span: Span) -> Problem:
    """The problem of a conjunct that is neither local nor about a pair of events."""
    names = named(conjunct)
    if not names:
        return Problem("the condition names no event", span=span, hint="name one, as in T.speed < 10")
    if all(is_next for _, is_next in names):
        hint = "compare it with the event before, as in T.speed < NEXT(T).speed"
        return Problem("the condition names only NEXT", span=span, hint=hint)
    hint = "a conjunct names one alias, two aliases, or one and the NEXT of one; split it with AND"
    return Problem(f"the condition names {len(names)} events", span=span, hint=hint)


# ---------------------------------------------------------------- GROUP BY, RETURN, HAVING


def _group_by(query: Query) -> Iterator[Problem]:
    seen: set[GroupKey] = set()
    for key in query.group_by:
        if key in seen:
            yield Problem(f"{_key_text(key)!r} is in GROUP BY twice", span=key.span)
        seen.add(key)
        if key.alias is None:
            continue
        problems = list(_positive(query, key.alias, key.span, "GROUP BY names"))
        if not any(key.alias in (ref.name, *_types_of(ref)) for ref, _ in refs(query.pattern)):
            field = f'a field of a column is quoted: GROUP BY "{key.alias}.{key.attribute}"'
            problems = [replace(each, hint=f"{each.hint}; {field}") for each in problems]
        yield from problems
        if not problems and can_avoid(query.pattern, key.alias):
            message = f"GROUP BY {_key_text(key)} needs {key.alias!r} in every trend, and some have none"
            yield Problem(message, span=key.span, hint="group by an event that is not optional")


def _types_of(ref: EventRef) -> frozenset[str]:
    return type_set(ref.type).names or frozenset()


def _key_text(key: GroupKey) -> str:
    return expression_text(Attribute(key.alias, key.attribute))


def _returns(query: Query) -> Iterator[Problem]:
    if isinstance(query.returns, Matches):
        spans = [query.returns.span] * len(columns(query))
        yield from _equal_columns(query, ("start", "end"), spans, "choose another alias")
        return
    keys: set[GroupKey] = set()
    for item in query.returns:
        match item.value:
            case Aggregate() as aggregate:
                yield from _aggregate(query, aggregate)
            case GroupKey() as key if key not in query.group_by:
                yield _not_grouped(query, key)
            case key:
                if key in keys:
                    yield Problem(f"{_key_text(key)!r} is in RETURN twice", span=item.span)
                keys.add(key)
    spans = [key.span for key in query.group_by]
    spans += [item.span for item in query.returns if isinstance(item.value, Aggregate)]
    yield from _equal_columns(query, ("window_start", "window_end"), spans, "name one of them with AS")


def _not_grouped(query: Query, key: GroupKey) -> Problem:
    text = _key_text(key)
    if text.upper() == "MATCHES":
        hint = "RETURN MATCHES takes no other items; the grouping attributes are always included"
    else:
        hint = nearest(text, map(_key_text, query.group_by)) or f"add GROUP BY {text}"
    return Problem(f"{text!r} is returned but is not in GROUP BY", span=key.span, hint=hint)


def _equal_columns(query: Query, taken: Iterable[str], spans: list[Span], hint: str) -> Iterator[Problem]:
    seen = set(taken)
    for column, span in zip(columns(query), spans, strict=True):
        if column in seen:
            yield Problem(f"two columns of the result are named {column!r}", span=span, hint=hint)
        seen.add(column)


def _aggregate(query: Query, aggregate: Aggregate) -> Iterator[Problem]:
    if aggregate.alias is not None:
        yield from _positive(query, aggregate.alias, aggregate.span, f"{aggregate.function} takes")
    keys = dict.fromkeys(
        (*partition_attributes(query), *(key.attribute for key in query.group_by if key.alias is None))
    )
    for name in aggregate.distinct:
        if name not in keys:
            message = f"COUNT(DISTINCT ...) takes attributes of partitions, and {name!r} is none"
            one = quoted(name)
            hint = nearest(name, keys) or f"add [{one}] to WHERE, or GROUP BY {one}"
            yield Problem(message, span=aggregate.span, hint=hint)
    if aggregate.of is not None and any(isinstance(node, Both) for node in walk(query.pattern)):
        message = f"{expression_text(aggregate)} cannot be combined with AND"
        hint = "the trends of AND's operands each have their own; write a query for each operand"
        yield Problem(message, span=aggregate.span, hint=hint)


def _having(query: Query) -> Iterator[Problem]:
    if query.having is None:
        return
    if isinstance(query.returns, Matches):
        yield Problem("HAVING cannot be combined with RETURN MATCHES", span=extent(query.having))
        return
    for node in walk(query.having):
        match node:
            case Aggregate():
                yield from _aggregate(query, node)
            case Attribute(is_next=True):
                yield Problem("NEXT is only allowed in WHERE", span=node.span)
            case Attribute() if having_value(query, node) is None:
                yield _unknown_in_having(query, node)


def _unknown_in_having(query: Query, attribute: Attribute) -> Problem:
    items = () if isinstance(query.returns, Matches) else query.returns
    known = {item.name: item.name for item in items if item.name is not None}
    known |= {_key_text(key): _key_text(key) for key in query.group_by}
    aggregates = [item.value for item in items if isinstance(item.value, Aggregate)]
    known |= {default_column(aggregate): expression_text(aggregate) for aggregate in aggregates}
    text = expression_text(attribute)
    meant = known.get(text)
    hint = f"did you mean {meant!r}?" if meant else nearest(text, known.values())
    message = f"HAVING names {text!r}, which is not an aggregate, AS name or grouping attribute"
    return Problem(message, span=attribute.span, hint=hint)


# ---------------------------------------------------------------- WITHIN, SLIDE, LIMIT


def _window(query: Query) -> Iterator[Problem]:
    window, gives_matches = query.window, isinstance(query.returns, Matches)
    if gives_matches and query.bound is None and window is not None and window.slide is not None:
        hint = "WITHIN alone bounds the time from the first to the last event of a match"
        yield Problem("SLIDE cannot be combined with RETURN MATCHES", span=window.span, hint=hint)
    match window:
        case Window(length, None, WindowUnit.EVENTS, span) if not gives_matches:
            hint = f"add for example SLIDE {length} events"
            yield Problem("WITHIN a number of events needs SLIDE", span=span, hint=hint)
    if gives_matches and query.includes_empty:
        span = _find(query, r"\b(include\s+empty)\b")
        hint = "only aggregates have rows without trends; remove INCLUDE EMPTY"
        yield Problem("INCLUDE EMPTY cannot be combined with RETURN MATCHES", span=span, hint=hint)
    if (bound := query.bound) is not None:
        word = "ONCE" if window is None else "EVERY"
        if gives_matches:
            hint = "WITHIN alone bounds the time from the first to the last event of a match"
            yield Problem(f"{word} cannot be combined with RETURN MATCHES", span=bound.span, hint=hint)
        elif isinstance(query.pattern, Both):
            hint = "the trends of an AND end one by one; ask one query per operand"
            yield Problem(f"{word} cannot be combined with AND", span=bound.span, hint=hint)
    if not gives_matches and query.limit is not None:
        span = _find(query, r"\b(limit)\b")
        yield Problem("LIMIT is only for RETURN MATCHES", span=span, hint="remove LIMIT")


# ---------------------------------------------------------------- columns and their types


def _column(schema: Schema, name: str, span: Span) -> Iterator[Problem]:
    if name not in schema and name != EVENT_TIME:
        yield Problem(f"there is no column {name!r}", span=span, hint=nearest(name, schema))


def _key_types(query: Query, schema: Schema) -> Iterator[Problem]:
    keys = [(name, _find(query, rf"\[[^\]]*?({re.escape(name)})")) for name in query.equivalence]
    for name, span in keys + [(key.attribute, key.span) for key in query.group_by]:
        yield from _column(schema, name, span)
        if schema.get(name) is Kind.OTHER:
            yield Problem(f"the column {name!r} cannot be grouped by: its values have no equality", span=span)


def _condition_types(query: Query, schema: Schema) -> Iterator[Problem]:
    conditions = query.where if query.having is None else (*query.where, query.having)
    for condition in conditions:
        for node in walk(condition):
            yield from _node_types(query, schema, node)
        yield from _boolean(query, schema, condition)


def _return_types(query: Query, schema: Schema) -> Iterator[Problem]:
    match query.returns:
        case Matches(attributes, span):
            for name in attributes:
                yield from _column(schema, name, span)
        case items:
            for item in items:
                if isinstance(item.value, Aggregate):
                    yield from _node_types(query, schema, item.value)


def _held(schema: Schema, name: str) -> Kind | None:
    """A column's kind; None if it is all null or missing. TIME(E) is a time, whatever the column is."""
    if name == EVENT_TIME:
        return Kind.TIME
    found = schema.get(name)
    return None if found is Kind.NULL else found


def _kind_of(query: Query, schema: Schema, expression: Expression) -> Kind | None:
    """An expression's kind; None for NULL, or if a problem reported elsewhere makes it unknown."""
    match expression:
        case Literal(value):
            return _LITERALS[type(value)]
        case Attribute(_, name):
            match having_value(query, expression) if expression.alias is None else None:
                case Aggregate() as aggregate:
                    return _kind_of(query, schema, aggregate)
                case GroupKey(_, attribute):
                    return _held(schema, attribute)
            return _held(schema, name)
        case Aggregate(Function.MIN | Function.MAX, _, str(attribute)):
            return _held(schema, attribute)
        case Binary(op, left, right):
            return _combined(op, _kind_of(query, schema, left), _kind_of(query, schema, right))
        case Unary("-" | "ABS", operand):
            is_duration = _kind_of(query, schema, operand) is Kind.DURATION
            return Kind.DURATION if is_duration else Kind.FLOAT
        case Aggregate():
            return Kind.FLOAT
    return Kind.BOOLEAN


_LITERALS: dict[type, Kind | None] = {
    **{int: Kind.INTEGER, float: Kind.FLOAT, str: Kind.STRING, bool: Kind.BOOLEAN, type(None): None},
    **{Instant: Kind.TIME, Duration: Kind.DURATION},
}

_TIMES = (Kind.TIME, Kind.DURATION)
_COMBINED = {
    ("-", Kind.TIME, Kind.TIME): Kind.DURATION,
    ("+", Kind.TIME, Kind.DURATION): Kind.TIME,
    ("+", Kind.DURATION, Kind.TIME): Kind.TIME,
    ("-", Kind.TIME, Kind.DURATION): Kind.TIME,
    ("+", Kind.DURATION, Kind.DURATION): Kind.DURATION,
    ("-", Kind.DURATION, Kind.DURATION): Kind.DURATION,
}
"""What arithmetic with times and durations gives; besides, numbers multiply durations."""


def _combined(op: str, left: Kind | None, right: Kind | None) -> Kind | None:
    """The kind of a sum, difference, product or quotient; None if it is null or means nothing."""
    if left not in _TIMES and right not in _TIMES:
        return Kind.FLOAT
    if left is None or right is None:
        return None
    if op == "*" and Kind.DURATION in (left, right) and (left.is_number or right.is_number):
        return Kind.DURATION
    return _COMBINED.get((op, left, right))


def _node_types(query: Query, schema: Schema, node: Expression) -> Iterator[Problem]:
    """The problems of one node, without those of its operands."""
    match node:
        case Attribute(_, name) if node.alias is not None or having_value(query, node) is None:
            yield from _column(schema, name, node.span)
        case Aggregate(function, _, str(attribute)):
            yield from _column(schema, attribute, node.span)
            yield from _aggregate_type(function, attribute, _held(schema, attribute), node.span)
        case Unary("NOT") | Logic():
            for part in children(node):
                yield from _boolean(query, schema, part)
        case Unary() if _kind_of(query, schema, node.operand) is Kind.DURATION:
            pass
        case Binary(op, left, right) if _has_time(query, schema, node):
            kinds = _kind_of(query, schema, left), _kind_of(query, schema, right)
            if None not in kinds and _combined(op, *kinds) is None:
                hint = "time - time is a duration; durations are added, subtracted and multiplied by numbers"
                message = f"{op!r} cannot combine {_a(kinds[0])} with {_a(kinds[1])}: {expression_text(node)}"
                yield Problem(message, span=extent(node), hint=hint)
        case Unary() | Binary():
            for part in children(node):
                yield from _number(query, schema, part, node)
        case Compare(_, left, right):
            yield from _alike(query, schema, left, right)
        case Between(operand, low, high):
            yield from _alike(query, schema, operand, low)
            yield from _alike(query, schema, operand, high)
        case In(operand, items):
            for item in items:
                yield from _alike(query, schema, operand, item)
        case Like(operand):
            if (found := _kind_of(query, schema, operand)) not in (None, Kind.STRING):
                yield Problem(f"LIKE takes a string, not {_a(found)}", span=extent(operand))
        case IsNull() | Attribute() | Aggregate() | Literal():
            pass


def _has_time(query: Query, schema: Schema, node: Binary) -> bool:
    return any(_kind_of(query, schema, side) in _TIMES for side in (node.left, node.right))


def _aggregate_type(function: Function, attribute: str, found: Kind | None, span: Span) -> Iterator[Problem]:
    takes_times = function in (Function.MIN, Function.MAX)
    if found is None or found.is_number or (takes_times and found is Kind.TIME):
        return
    takes = "numbers or times" if takes_times else "numbers"
    yield Problem(f"{function} takes {takes}, but {attribute!r} is {_a(found)}", span=span)


def _boolean(query: Query, schema: Schema, condition: Expression) -> Iterator[Problem]:
    if (found := _kind_of(query, schema, condition)) not in (None, Kind.BOOLEAN):
        message = f"expected a condition, found {_a(found)}: {expression_text(condition)}"
        yield Problem(message, span=extent(condition))


def _number(query: Query, schema: Schema, operand: Expression, node: Unary | Binary) -> Iterator[Problem]:
    found = _kind_of(query, schema, operand)
    if found is not None and not found.is_number:
        message = f"{node.op!r} takes numbers, but {expression_text(operand)} is {_a(found)}"
        yield Problem(message, span=extent(node))


def _alike(query: Query, schema: Schema, left: Expression, right: Expression) -> Iterator[Problem]:
    a, b = _kind_of(query, schema, left), _kind_of(query, schema, right)
    if a is b and a is not Kind.OTHER:
        return
    span = Span(extent(left).start, extent(right).end)
    if Kind.OTHER in (a, b):
        operand = expression_text(left if a is Kind.OTHER else right)
        hint = f"name a field of it, as in {operand}.city, if it holds structs"
        yield Problem(f"{operand} cannot be compared: its column holds no plain values", span=span, hint=hint)
    elif a is not None and b is not None and not (a.is_number and b.is_number):
        texts = expression_text(left), expression_text(right)
        yield Problem(f"cannot compare {texts[0]} ({a}) with {texts[1]} ({b})", span=span)


def _a(found: Kind | None) -> str:
    """A kind with its article, for messages."""
    return f"{'an' if found in (Kind.INTEGER, Kind.OTHER) else 'a'} {found}"
