"""What every layer uses and none owns: checks of arguments, lines of text, files written whole, progress. Private to hushvec."""
