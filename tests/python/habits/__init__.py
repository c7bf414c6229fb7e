"""Random habits of Python's users: plain scripts that are drawn by a seed, run and judged by how they end.

`habit` says what a habit is, `tensors`, `processes` and `partners` have them. `draw` makes scripts of them, `trial`
runs one, `small` makes one with a finding smaller, and `__main__` is the campaign with its options.
"""
