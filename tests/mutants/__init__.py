"""Mutants of the critical modules: cosmic-ray's configuration, and a script that samples them."""
