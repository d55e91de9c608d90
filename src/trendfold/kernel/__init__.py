"""Machines as arrays, and the loops over events that read them. Only this room knows numba."""
