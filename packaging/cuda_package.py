"""The compiled CUDA backend of hushvec, which finds it by its name: hushvec._native.cuda."""
