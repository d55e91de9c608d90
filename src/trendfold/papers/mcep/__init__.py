"""MCEP (2019): join plans for many patterns by local search over which sub-patterns they share.

The core joins and walks (`detect`); this package only searches for plans. `plan.py` is the search,
`baselines.py` the plans it is compared with, `pattern_graph.py` what patterns have in common,
`neighbourhood.py` one step of the search, and `heuristics.py` how steps are chosen.
"""
