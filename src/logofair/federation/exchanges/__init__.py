"""The exchanges of a run, one after the other; each module declares some of them whole.

==================  ====================================================================================
``calibrating``     who contributes, rows of the groups, Newton steps of the calibrators
``pooling``         what small cells may borrow, chosen on held-out rows
``totals``          rows and expected positives of the roster
``answers``         prices out, best answers back: the exact decomposition, and Algorithm 1's bound
``algorithm1``      smoothness constants and local steps
``final``           the policy stored and measured; the result published
==================  ====================================================================================

To add a message, declare its request, its reply and its exchange in one of these, and name the exchange where the one
before it ends.
"""
