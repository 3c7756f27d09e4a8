// The table in use, and any other by name for tests.
#pragma once

#include <string_view>

#include "dispatch/kernels.hpp"

namespace hushvec {

const Kernels& active_kernels();

// Throws std::invalid_argument for a name that is unknown or that this machine cannot run.
const Kernels& kernels_by_name(std::string_view name);
const WordKernels& word_kernels_by_name(std::string_view name);

}  // namespace hushvec
