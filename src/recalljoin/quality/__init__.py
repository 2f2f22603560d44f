"""Choosing K: how long to wait for late tuples so that enough of the results are produced.

A policy is made by name (:func:`make_policy`), learns of the join through profiles
(:class:`Profile`) and says what K to use next. :func:`run_adaptive` runs a policy over a recording.
"""
