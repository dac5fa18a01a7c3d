"""The steps of the graphs, one file a node. A node reads the state, calls one thing, returns what it sets."""
