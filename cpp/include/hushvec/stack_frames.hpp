// What a kernel leaves on the stack: its cipher's state, in which the key lies.
#pragma once

namespace hushvec {

// Overwrites the frames that calls of this thread have left below the caller's.
void wipe_stack_below();

// The same of the deeper frames of discrete samples.
void wipe_deep_stack_below();

// At the head of a call that has such frames.
struct WipesDeepFrames {
    ~WipesDeepFrames() { wipe_deep_stack_below(); }
};

}  // namespace hushvec
