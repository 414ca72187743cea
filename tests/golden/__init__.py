"""What must not change while the code around it does: some fifty cases and the figures recorded for them.

``cases`` declares them as data, ``columns`` makes their rows, ``calls`` is the one place that knows how the library is
called, and ``figures.json`` and ``policies.json`` hold what was recorded. A change that is meant is recorded anew, in a
commit of its own that lists it: ``cd tests && python -m golden.record``.
"""
