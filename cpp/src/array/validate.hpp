// The rules for clip_norm and sigma, each with its one error text.
#pragma once

#include "hushvec/noise.hpp"

namespace hushvec {

void check_clip_norm(double clip_norm);              // in [2^-100, 2^100]
void check_scale(const char* name, double scale);    // in [0, 2^100]
float exact_sigma(double sigma);                     // rounded up to float32; in [2^-100, 2^100]
void check_int8(Law law, double sigma, bool exact);  // what int8 values can be made of

}  // namespace hushvec
