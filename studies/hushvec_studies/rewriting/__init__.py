"""The study of private rewriting: leak and likeness of what is handed out, and attacks on it."""
