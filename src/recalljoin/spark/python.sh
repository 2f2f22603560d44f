#!/bin/sh
# Python for Spark's workers, started in a fifth of the time; see recalljoin/spark/workers.py.
# Spark puts its own zip files of PySpark and Py4J first on the path, and Python compiles all that
# it imports from a zip file, in every process anew. What is installed beside the interpreter has
# the same content, and has been compiled.
PYTHONPATH="${PYTHONPATH#*/python/lib/pyspark.zip:*-src.zip}"
export PYTHONPATH="${PYTHONPATH#:}"
exec "$RECALLJOIN_PYTHON" "$@"
