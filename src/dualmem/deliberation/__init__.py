"""What the nodes of the deliberation graph are made of: chunks, waves and the ledger."""
