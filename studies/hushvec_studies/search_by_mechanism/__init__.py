"""What search keeps under each mechanism, for private questions and private documents."""
