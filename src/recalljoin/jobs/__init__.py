"""Jobs: a streaming join described by a file, from its sources to its sink."""
