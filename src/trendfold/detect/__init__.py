"""RETURN MATCHES: patterns to clauses, clauses to join plans that share, plans to columns of row numbers."""
