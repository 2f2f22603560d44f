"""Shows joins to people: on a web page, as metrics, as pictures and in a terminal."""
