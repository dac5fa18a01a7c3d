"""Where turns and memories are kept.

`Backend` is the small protocol over a vector database; `EdgeBackend` (a folder) and `QdrantBackend` (a server,
a cluster, or `:memory:`) implement it, and nothing else imports either client. `Store` speaks in turns and
memories over any backend.
"""
