"""logofair.fit: check, calibrate, solve, measure again, hand over."""
