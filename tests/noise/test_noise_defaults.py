"""What callers of hushvec.noise get where they leave an argument out."""

from room_classes import numbers_left_out

LEFT_OUT = """
calibration.expected_cosine(norm=1.0)
calibration.gaussian_delta(sensitivity=1.0)
calibration.gaussian_epsilon(sensitivity=1.0)
calibration.gaussian_sigma(sensitivity=1.0, allow_unproven=False)
fills.clip_and_noise(exact=True)
fills.gaussian_noise(sigma=1.0)
fills.l2_laplace_noise(scale=1.0)
fills.laplacian_noise(scale=1.0)
"""


def test_what_a_caller_leaves_out_means_what_it_did():
    """A default is a part of every call that does not name it: another one changes those calls without a word."""
    assert numbers_left_out("noise") == LEFT_OUT.split("\n")[1:-1]
