"""A page to think with: every control is answered by a certified optimum, while the hand still moves.

A :class:`~logofair.studio.session.Session` keeps what was read and calibrated once, and solves it again for every
setting. Its two homes, a server on this machine and a notebook, only carry what the page asks and what it is answered.
"""
