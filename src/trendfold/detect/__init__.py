"""RETURN MATCHES: patterns become clauses, clauses become join plans, joins make tables of row numbers."""
