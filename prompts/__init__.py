"""The prompts, one file a prompt: its text, the function that renders it, and the form of the reply."""
