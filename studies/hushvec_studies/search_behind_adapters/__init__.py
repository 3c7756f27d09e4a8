"""How often a question finds its note behind an adapter."""
