"""One operator instance of the join, on columns; knows neither Spark nor files nor policies."""
