"""The memory as a person sees it: a local web page."""
