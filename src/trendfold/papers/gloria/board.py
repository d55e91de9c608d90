"""What papers.gloria.kernel reads and works in: one array of whole numbers, and where things lie in it.

Many small tables are one array, `t` in the kernels. Its first numbers, t[STEPS] and so on, say where each
table begins; `ring_at(t, ring)` and the other functions at the end say where a record does, and constants
such as RING_CAP which of its numbers is which. A span is a pair low, high of record numbers in another table.
papers.gloria.network explains nodes, bundles, rings, rows and lists.

A lane is one query in one open window. Lanes that are worked on together lie side by side: a *hull* [lo, hi)
of lanes, with weights that are 0 for lanes in between that do not belong to it. Weights are named by the
place of the hull's first lane.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import inlined


class Board(NamedTuple):
    """Everything that is read and written, except the events. Few arrays: each costs time in every call.

    i  tables, then work
    f  mantissas and extremes of blocks, coefficients of rows, bounds, weights: m, x, c, w in the kernel.
       Bounds: no mantissa of a block, and no sum of a row's coefficients, is larger.
    e  exponents of the mantissas
    """

    i: NDArray[np.int64]
    f: NDArray[np.float64]
    e: NDArray[np.int32]


TABLES = (
    # Events
    "steps",  # per symbol, and one more: where its operations begin
    "ops",
    "lists_met",  # per symbol a span of lists that its operations read
    "lists_of",
    "uses",  # bundles of operations
    # Nodes
    "nodes",
    "reads",
    "lists_read",
    "feeds",
    "xfeeds",
    "pushes",
    "pours",
    "keeps",
    # Expressions
    "bundles",
    "targets",
    "bundle_lists",
    "columns",
    "rows",
    "rings",
    "ring_rows",
    "ring_lists",
    "ring_members",
    "fed",
    "phis",
    "lane_phis",
    "lane_psis",
    # Values
    "blocks",
    "lists",
    "conditions",
    "list_members",
    # Queries
    "members",
    "member_blocks",
    "member_starts",
    "member_rings",
    "member_lists",
    "member_ends",
    "windows",
    # Work
    "first",  # per member: the first open window, and one past the last
    "oldest",  # per member: the row at which its oldest open window began
    "far",  # per block: whether any of its numbers may have an exponent
    "dirty",  # nodes that the moment has touched
    "touched",  # per node: 0, TOUCHED or VALUED
    "adding",  # per bundle: whether the moment adds coefficients, and a snapshot
    "ring_work",
    "slots",  # per snapshot: the row of its last event, or -1
    "list_work",  # per list: its first entry, and how many
    "entries",
    "matched",  # per list, behind each other as its entries are: those that the event may follow
    "found",  # per list: how many these are
)

(
    STEPS, OPS, LISTS_MET, LISTS_OF, USES, NODES, READS, LISTS_READ, FEEDS, XFEEDS, PUSHES, POURS, KEEPS,
    BUNDLES, TARGETS, BUNDLE_LISTS, COLUMNS, ROWS, RINGS, RING_ROWS, RING_LISTS, RING_MEMBERS, FED, PHIS,
    LANE_PHIS, LANE_PSIS, BLOCKS, LISTS, CONDITIONS, LIST_MEMBERS,
    MEMBERS, MEMBER_BLOCKS, MEMBER_STARTS, MEMBER_RINGS, MEMBER_LISTS, MEMBER_ENDS, WINDOWS,
    FIRST, OLDEST, FAR, DIRTY, TOUCHED_AT, ADDING, RING_WORK, SLOTS, LIST_WORK, ENTRIES, MATCHED, FOUND,
) = range(len(TABLES))  # fmt: skip
HOW_MANY = len(TABLES)
"""Then counts, the block of whole trends, where bounds begin, and where the tally does."""
N_MEMBERS, N_RINGS, N_LISTS, N_BLOCKS, N_ROWS, END_BLOCK, BOUNDS, TALLY = range(HOW_MANY, HOW_MANY + 8)
HEADER = HOW_MANY + 8

# op: node, weights of the lanes whose value is needed (-1: none), how many they are,
#     span of bundles that all their queries go on in, span of those that only some do, span of keeps
OP, OP_NODE, OP_WEIGHT, OP_LANES, OP_EVEN, OP_UNEVEN, OP_KEEPS = 9, 0, 1, 2, 3, 5, 7
# node: its inbox (-1: none), block of values, block for one event, spans
NODE, NODE_INBOX, NODE_VALUE, NODE_GAIN = 17, 0, 1, 2
NODE_READS, NODE_LISTS, NODE_FEEDS, NODE_XFEEDS, NODE_PUSHES, NODE_POURS, NODE_BUNDLES = range(3, 17, 2)
# read: row, row of the total, ring, span of lists
READ, READ_ROW, READ_TOTAL, READ_RING, READ_LISTS = 5, 0, 1, 2, 3
# feed: number (or extreme), column, weights of the lanes that take it in
FEED = 3
# push: block, lo, hi, weights          pour: ring, lo, hi, weights          keep: list, lo, hi, weights
PUSH = 4
# bundle: ring, row read, row of what a moment adds, block of a snapshot, span of targets, of lists,
#         columns of σ and μ, lo, hi, weights
BUNDLE, BUNDLE_RING, BUNDLE_READ, BUNDLE_SUM, BUNDLE_BLOCK, BUNDLE_TARGETS, BUNDLE_LISTS_, BUNDLE_COLUMNS = (
    12, 0, 1, 2, 3, 4, 6, 8,
)  # fmt: skip
BUNDLE_HULL = 9
# row: ring, where its coefficients begin
ROW = 2
# ring: block of its first snapshot, snapshots at most, σ rows, μ rows, where its slots are,
#       block for folding up, snapshots of one moment at most, spans
RING, RING_BLOCK, RING_CAP, RING_PHIS, RING_PSIS, RING_SLOTS, RING_SPARE, RING_RESERVE = (
    22,
    0,
    1,
    2,
    3,
    4,
    5,
    6,
)
RING_ROWS_, RING_LISTS_, RING_MEMBERS_, RING_FED, RING_PHI_SPAN, RING_LANE_PHIS, RING_LANE_PSIS = (
    8, 10, 12, 14, 16, 18, 19,
)  # fmt: skip
# phi: number, σ row, weights
PHI = 3
# block: where numbers begin, where extremes begin, first lane, lanes, numbers, extremes
BLOCK, BLOCK_BASE, BLOCK_XBASE, BLOCK_LO, BLOCK_SIZE, BLOCK_WIDTH, BLOCK_EXTREMES = 6, 0, 1, 2, 3, 4, 5
# list: ring (-1: values), entries at most, where entries are, block or row of the first, spans of conditions
#       and of members
LIST, LIST_RING, LIST_CAP, LIST_ENTRIES, LIST_FIRST, LIST_CONDITIONS, LIST_MEMBERS_ = 8, 0, 1, 2, 3, 4, 6
# member: first lane, lanes, span of windows, numbers, extremes, spans
MEMBER, MEMBER_LANE, MEMBER_LANES, MEMBER_WINDOWS, MEMBER_WIDTH, MEMBER_EXTREMES = 16, 0, 1, 2, 4, 5
MEMBER_STARTS_, MEMBER_BLOCKS_, MEMBER_RINGS_, MEMBER_LISTS_, MEMBER_ENDS_ = range(6, 16, 2)

# Work
RING_STATE, TOP, USED, OPEN, MOMENT, FULL = 5, 0, 1, 2, 3, 4
"""Of a ring: slots in use lie below TOP; the snapshot that more events may join, and the moment it is of."""
ENTRY, ENTRY_ROW, ENTRY_MOMENT, ENTRY_SLOT = 3, 0, 1, 2
SNAPSHOTS, PROPAGATIONS, EVALUATIONS, FOLDINGS, IS_FULL = range(5)
"""The tally; and whether some ring must be folded up."""
TALLIES = 5
TOUCHED, VALUED = 1, 2


# Where a record begins in the table `t`: records have up to 22 numbers, of which a function needs one or two.


@inlined
def block_at(t, block):
    """The record of a block."""
    return t[BLOCKS] + BLOCK * block


@inlined
def ring_at(t, ring):
    """The record of a ring."""
    return t[RINGS] + RING * ring


@inlined
def ring_state_at(t, ring):
    """The work record of a ring: TOP, USED, OPEN, MOMENT, FULL."""
    return t[RING_WORK] + RING_STATE * ring


@inlined
def list_at(t, number):
    """The record of a list."""
    return t[LISTS] + LIST * number


@inlined
def list_work_at(t, number):
    """The first entry of a list, and how many it has."""
    return t[LIST_WORK] + 2 * number


@inlined
def entry_at(t, entry):
    """The record of an entry; its number is `LIST_ENTRIES` plus its place in the list."""
    return t[ENTRIES] + ENTRY * entry


@inlined
def node_at(t, node):
    """The record of a node."""
    return t[NODES] + NODE * node


@inlined
def bundle_at(t, bundle):
    """The record of a bundle."""
    return t[BUNDLES] + BUNDLE * bundle


@inlined
def op_at(t, op):
    """The record of an operation."""
    return t[OPS] + OP * op


@inlined
def read_at(t, q):
    """The record of a read."""
    return t[READS] + READ * q


@inlined
def feed_at(t, q):
    """The record of a feed of numbers."""
    return t[FEEDS] + FEED * q


@inlined
def xfeed_at(t, q):
    """The record of a feed of extremes."""
    return t[XFEEDS] + FEED * q


@inlined
def push_at(t, q):
    """The record of a push: to a block."""
    return t[PUSHES] + PUSH * q


@inlined
def pour_at(t, q):
    """The record of a pour: to a ring."""
    return t[POURS] + PUSH * q


@inlined
def keep_at(t, q):
    """The record of a keep: to a list."""
    return t[KEEPS] + PUSH * q


@inlined
def phi_at(t, q):
    """The record of a number that σ is kept for."""
    return t[PHIS] + PHI * q


@inlined
def member_at(t, member):
    """The record of a member."""
    return t[MEMBERS] + MEMBER * member


@inlined
def adding_at(t, bundle):
    """Whether the moment adds coefficients to a bundle, and a snapshot."""
    return t[ADDING] + 2 * bundle


@inlined
def open_windows_at(t, member):
    """The open windows of a member: the first, and one past the last."""
    return t[FIRST] + 2 * member


@inlined
def window_at(t, window):
    """The rows of a window: low, high."""
    return t[WINDOWS] + 2 * window


@inlined
def lists_met_at(t, symbol):
    """The span of lists that events of a symbol read."""
    return t[LISTS_MET] + 2 * symbol


@inlined
def row_ring(t, row):
    """The ring of a row of coefficients."""
    return t[t[ROWS] + ROW * row]


@inlined
def row_begin(t, row):
    """Where the coefficients of a row begin among the doubles."""
    return t[t[ROWS] + ROW * row + 1]


@inlined
def bound_at(t, block):
    """The place, among the doubles, of the largest mantissa of a block."""
    return t[BOUNDS] + block


@inlined
def row_bound_at(t, row):
    """The place, among the doubles, of a bound on the sum of a row's coefficients."""
    return t[BOUNDS] + t[N_BLOCKS] + row


@inlined
def far_at(t, block):
    """Whether any number of a block may have an exponent."""
    return t[FAR] + block


@inlined
def touched_at(t, node):
    """Whether the moment has touched a node: 0, TOUCHED or VALUED."""
    return t[TOUCHED_AT] + node
