"""Ways to give an agent this memory: tools, middleware, a LangGraph store, a retriever, MCP.

Each module is imported by itself, since some need an extra: `middleware` needs `dualmem[agents]`, `mcp` needs
`dualmem[mcp]`. For memory as a subgraph nothing of this is needed: `dualmem.graphs` has the builders.
"""
