"""What is found in released rows and who is recognized in them, by mechanism and epsilon: the picture of the README."""
