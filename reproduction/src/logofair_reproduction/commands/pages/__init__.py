"""What the commands show: pages for people, plain values for JSON."""
