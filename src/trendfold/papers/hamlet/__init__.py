"""HAMLET (2021): queries with a common sub-pattern E+ share bursts of E, decided burst by burst."""
