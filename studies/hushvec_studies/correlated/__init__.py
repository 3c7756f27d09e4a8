"""When training gains from noise that is correlated over steps."""
