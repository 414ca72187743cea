"""The exchanges of a run, one after the other; each module declares some of them whole.

==================  ====================================================================================
``calibrating``     who contributes, rows of the groups, Newton steps of the calibrators
``pooling``         what small cells may borrow, chosen on held-out rows
``rounds``          totals of the roster; then prices out, best answers back, or steps of Algorithm 1
``final``           the policy stored and measured
``publication``     the result published, and what a site checks of it
==================  ====================================================================================

To add a message, declare in one of these its reply, its request with the site's answer, and its exchange, which says
what the server does with the total; and name the exchange where the one before it ends.
"""
