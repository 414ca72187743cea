"""Users' columns: checked once, labels numbered once, runs of rows in one long array."""
