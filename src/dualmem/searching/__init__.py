"""Search: which memories and turns a question needs, in which order."""
