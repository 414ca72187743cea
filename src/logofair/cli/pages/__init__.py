"""What the commands show in a terminal, and the toolkit they share."""
