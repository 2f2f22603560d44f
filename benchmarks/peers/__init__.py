"""The same joins through other systems: ``python -m benchmarks.peers``."""
