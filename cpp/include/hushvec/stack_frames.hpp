// What a kernel leaves on the stack: its cipher's state, in which the key lies.
#pragma once

namespace hushvec {

// Overwrites the frames that calls of this thread have left below the caller's.
void wipe_stack_below();

}  // namespace hushvec
