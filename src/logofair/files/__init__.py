"""Users' tables and our own documents on disk."""
