"""The Spark runtime. Tasks import from here: only `engine`, `session`, `source` and `catalyst` know Spark."""
