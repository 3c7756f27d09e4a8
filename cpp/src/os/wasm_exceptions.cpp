// Exceptions of a program whose C++ library has none: whatever is thrown ends the call as an error of the program around it, which makes a
// new instance then. No catch block runs, and no destructor.
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <typeinfo>

extern "C" {

[[noreturn, clang::import_module("hushvec"), clang::import_name("throw")]] void hushvec_hand_over(bool wrong_value, const char* text);

void* __cxa_allocate_exception(std::size_t size) { return std::malloc(size); }

// All that this library throws is a std::exception.
[[noreturn]] void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
    auto* error = static_cast<std::exception*>(thrown);
    hushvec_hand_over(dynamic_cast<std::invalid_argument*>(error) != nullptr, error->what());
}

// Of the catch blocks, which are compiled and never reached.
void __cxa_free_exception(void*) {}
void* __cxa_begin_catch(void* thrown) { return thrown; }
void __cxa_end_catch() {}
[[noreturn]] void __cxa_rethrow() { std::abort(); }

// The destructors of the one thread's own variables would run when it ends: an instance is dropped as a whole.
int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }
}
