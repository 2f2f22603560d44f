"""Sliding-window joins of disordered streams that reach the recall you ask for."""

__all__ = ["__version__"]

__version__ = "0.1.0"
