// The implementation of AES in use, and any other by name for tests.
#pragma once

#include <string_view>

#include "lanes/aes/kernels.hpp"

namespace hushvec {

const AesKernels& active_aes();

// Throws std::invalid_argument for a name that is unknown or that this machine cannot run.
const AesKernels& aes_by_name(std::string_view name);

}  // namespace hushvec
