"""Cells: the rows of one group at one client, ordered by score, with running sums."""
