"""The dynamic programme of local plans: every set of parts is cut where its tree is cheapest."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel


@kernel
def best_cuts(terms, masks):
    """Per set of parts, the half of it that is joined with the other half in its cheapest tree.

    masks  int64[k]  the elements of each part; sets of parts are the bits of 0 .. 2^k - 1
    """
    count = 1 << masks.shape[0]
    made, ordered = np.ones(count), np.ones(count)  # C(S) and order(S), see detect.cost
    best, cut = np.zeros(count), np.zeros(count, np.int64)
    for s in range(1, count):
        inside = 0
        for part in range(masks.shape[0]):
            if s >> part & 1:
                inside |= masks[part]
        for i in range(terms.weight.shape[0]):
            if inside >> i & 1:
                made[s] *= terms.weight[i]
                earlier = 0
                for j in range(terms.weight.shape[0]):
                    if inside >> j & 1:
                        earlier += terms.before[i] >> j & 1
                        if j < i:
                            made[s] *= terms.sel[i, j]
                ordered[s] /= 1 + earlier
        made[s] *= ordered[s]
        if s & (s - 1) == 0:
            continue
        best[s] = np.inf
        lowest, half = s & -s, (s - 1) & s
        while half:
            if half & lowest:  # each split once
                rest = s ^ half
                pairs = made[half] * made[rest] * ordered[s] / (ordered[half] * ordered[rest])
                here = best[half] + best[rest] + made[s] + terms.look * pairs
                if here < best[s]:
                    best[s], cut[s] = here, half
            half = (half - 1) & s
    return cut
