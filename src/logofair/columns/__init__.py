"""Users' columns: checked once, labels numbered once, rows ordered once."""
