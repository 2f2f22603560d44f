"""The tests, a package so that they can share `tests.reference` and `tests.strategies`."""
