"""Private questions to a public index: a question is sent as one private row, and the client ranks the answers."""
