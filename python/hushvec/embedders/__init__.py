"""Anything that embeds texts, of any library, behind one protocol, and what it answers as rows with usage and metadata."""
