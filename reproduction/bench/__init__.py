"""How fast training is, and what real data say of the library: run from the top of a checkout."""
