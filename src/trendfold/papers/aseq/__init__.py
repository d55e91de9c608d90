"""A-Seq (2014): sequences share prefix counters, and sub-patterns by chop-connect."""
