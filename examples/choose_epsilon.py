"""The effect of an epsilon before any is spent: noise, expected cosine, and the distribution of each mechanism."""

from hushvec.mechanisms import Gaussian, L2Laplace, Laplacian

DIMENSION = 384

print(f"{'epsilon':>8} {'sigma':>10} {'cosine':>8} | {'laplacian':>10} {'l2_laplace':>10}   (expected cosine, delta = 0)")
for epsilon in (1.0, 5.0, 16.0, 50.0, 200.0):
    gaussian = Gaussian(epsilon=epsilon, delta=1e-5, dimension=DIMENSION)
    pure = [kind(epsilon=epsilon, dimension=DIMENSION).expected_cosine() for kind in (Laplacian, L2Laplace)]
    print(f"{epsilon:8g} {gaussian.sigma:10.4f} {gaussian.expected_cosine():8.4f} | {pure[0]:10.4f} {pure[1]:10.4f}")
