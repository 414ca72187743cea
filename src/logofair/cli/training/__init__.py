"""What logofair train does: settings, rows, rounds and files."""
