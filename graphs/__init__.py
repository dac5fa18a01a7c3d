"""The graphs: `recall`, `deliberation` and `ingestion`.

Each module has a builder, which takes live objects, and `graph`, compiled, which finds its store and models by
the environment and opens them when first used.
"""
