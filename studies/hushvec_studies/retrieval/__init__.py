"""The study of private retrieval: utility and attacks over a grid of mechanisms, and programs for single questions of it."""
