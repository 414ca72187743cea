"""The LoGoFair paper run again: its training methods, data sets, bounds and experiments, beside what it claims.

Adds the commands ``logofair train``, ``logofair data`` and ``logofair reproduce``.
"""
