"""The memory as a person sees it: a web page on this machine, and one file of it to keep.

Needs the extra `explore`.
"""
