"""The join on Spark: streaming DataFrames in, a streaming DataFrame out."""
