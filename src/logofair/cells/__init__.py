"""Cells: the rows of one group at one site, ordered by score, with running sums."""
