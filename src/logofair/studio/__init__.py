"""A page to think with: every control is answered by a certified optimum, while the hand still moves."""
