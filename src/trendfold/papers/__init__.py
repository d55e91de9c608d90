"""The papers' methods, separate from the core: for comparison, and for `auto` to choose from.

The core refers to them in one table, `plan.papers`; they import the core, but not each other.
"""
