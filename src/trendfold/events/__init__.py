"""Bytes -> events: sources, columns by kind, rejects, generated streams."""
