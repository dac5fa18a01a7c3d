"""Chat and embedding models that run on this machine; they need no key and no service (extra `local`)."""
