"""What is found after public projections and noise."""
