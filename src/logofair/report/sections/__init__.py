"""The parts of the report, one module each."""
