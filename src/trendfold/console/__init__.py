"""The console: a local page to open data, write queries and look at their results (docs/console.md)."""

from trendfold.console.served import serve

__all__ = ["serve"]
