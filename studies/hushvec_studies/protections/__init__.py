"""What protects an embedding? Protections of other packages, noise and releases of hushvec, attacked alike."""
