"""Benchmarks: ratios within one run and growth with size, not timed tests.

Rules: data is generated from fixed seeds outside the timer, every run gets a fresh pipeline,
kernels are compiled before the clock starts, the best of several runs counts, and everything
that is compared runs in the same process on one core.
"""
