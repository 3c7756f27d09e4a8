// Minimax polynomials of the float64 lanes. Written by make_float64_polynomials.py; do not edit.
//
// Coefficients from the constant up. Errors are those of the rounded coefficients in exact arithmetic.
#pragma once

namespace hushvec {

// (-2 ln(1 + f) + 2 f) / f^2, |f| <= 1/3 + 2^-20: error of f^2 p relative to -2 ln u at most 2^-55.82
inline constexpr double kLogRemainder[] = {
    0x1.0000000000003p+0, -0x1.55555555553c3p-1, 0x1.0000000000af9p-1, -0x1.99999999ceba7p-2,
    0x1.55555553a0300p-2, -0x1.2492490ef8b19p-2, 0x1.000000acc6aa2p-2, -0x1.c71c7b0b734bcp-3,
    0x1.999954edac611p-3, -0x1.745be6582e97cp-3, 0x1.555d40b5dedbdp-3, -0x1.3b2ca2710407cp-3,
    0x1.240290a3a3cadp-3, -0x1.0fbd039cec1f9p-3, 0x1.0654031b8e55bp-3, -0x1.f945b7c2ec0ddp-4,
    0x1.71a5bdc07d658p-4, -0x1.30725323fc6c3p-4, 0x1.660398d6a656dp-3, -0x1.7bfde1a4be3fbp-3,
};

// sin(pi w) / w in w^2, |w| <= 1/4: relative error at most 2^-54.51
inline constexpr double kSineQuotient[] = {
    0x1.921fb54442d18p+1, -0x1.4abbce625be41p+2, 0x1.466bc677587fdp+1, -0x1.32d2cce2e60e4p-1,
    0x1.50782fda6c2ebp-4, -0x1.e30071ff2b444p-8, 0x1.e3f39e10de1cfp-12,
};

// (cos(pi w) - 1) / w^2 in w^2, |w| <= 1/4: absolute error of w^2 p at most 2^-55.76
inline constexpr double kCosineQuotient[] = {
    -0x1.3bd3cc9be45dep+2, 0x1.03c1f081b5ab0p+2, -0x1.55d3c7e3c95bcp+0, 0x1.e1f50683b4322p-3,
    -0x1.a6d1ecb743c46p-6, 0x1.f9cc6ad2319fap-10, -0x1.b26fe8faaba30p-14,
};

}  // namespace hushvec
