"""Random habits of Python's users: plain scripts that are drawn by a seed, run and judged by how they end.

    python -m habits [--seeds N | --seed N] [--minutes M] [--only NAME] [--part K/N] [--replay FILE]
                     [--shrink FILE]
"""
