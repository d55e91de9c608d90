"""A-Seq (2014): sequences share counters of prefixes, and of sub-patterns by chop-connect."""
