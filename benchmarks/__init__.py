"""Speed, as ratios within one run: make bench."""
