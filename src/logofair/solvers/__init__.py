"""Solvers: the best fair rule for given cells, exactly or by the paper's Algorithm 1."""
