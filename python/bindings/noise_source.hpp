// What a call draws from: a Generator, or a stream that was reserved before and travels in a capsule.
#pragma once

#include <pybind11/pybind11.h>

#include "hushvec/wiped_stream.hpp"

namespace hushvec::python {

// The stream of one call, wiped with the call. Throws TypeError for anything else.
WipedStream reserve_from(pybind11::handle source);

}  // namespace hushvec::python
