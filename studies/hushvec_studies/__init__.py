"""Studies of hushvec: what private embeddings keep and leak, measured. `studies/README.md` lists them with the command of each."""
