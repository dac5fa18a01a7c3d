"""The nodes of the deliberation graph."""
