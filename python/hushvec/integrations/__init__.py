"""hushvec inside other libraries. Each module here needs the library that it is named after."""
