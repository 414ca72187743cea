"""The commands, one module each: options, and what they do."""
