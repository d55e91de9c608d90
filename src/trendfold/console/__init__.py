"""The console: a local page to open data, write queries and look at their results (docs/console.md)."""
