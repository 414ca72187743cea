"""What the commands compute and show in a terminal, and the toolkit they share."""
