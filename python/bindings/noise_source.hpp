// What a call draws from: a Generator, a stream that was reserved before and travels in a capsule, or a cipher by its name.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "hushvec/generator.hpp"
#include "hushvec/keystream.hpp"
#include "hushvec/wiped_stream.hpp"

namespace hushvec::python {

// The stream of one call, wiped with the call. Throws TypeError for anything else.
WipedStream reserve_from(pybind11::handle source);

// The one of the process, keyed by the operating system.
std::shared_ptr<Generator> default_generator();

// Throws TypeError for what is no string, ValueError for another name.
Cipher cipher_named(const pybind11::object& value);

}  // namespace hushvec::python
