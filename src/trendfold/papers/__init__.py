"""The methods of the papers beside the core: for comparison, and where `auto` takes one.

The core names them in one table, `plan.papers`; they import the core, never each other.
"""
