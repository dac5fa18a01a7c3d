"""What the nodes of the ingestion graph are made of: pure functions over turns, drafts and memories."""
