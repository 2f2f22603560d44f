"""What the user asks for: streams, windows, a condition, outputs and a quality target.

A query is stated in Python (:class:`Query`) or as text (:func:`parse_query`), and bound to the
schemas of its streams (:meth:`Query.bind`). The bound query has its condition taken apart into
classes of equal attributes and a residual of typed expressions, which :func:`evaluate` computes
on Arrow arrays. Nothing of a query is ever executed as Python.
"""
