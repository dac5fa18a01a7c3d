"""The nodes of the ingestion graph."""
