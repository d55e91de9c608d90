"""A campaign of faults: streams, files and queries are broken at random, and what is lost is counted."""
