// The part of XLA's foreign function interface that a handler needs, as it lies in memory: a C interface whose older versions XLA keeps
// accepting. Declared here because jaxlib ships the headers, and no build of hushvec needs jaxlib. tests/integrations/test_jax_layout.py
// compares sizes, offsets and values with jaxlib's headers.
//
// Every struct begins with its size as the caller knows it, so that fields can be added at the end, and with a list of extensions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hushvec::xla {

// The version of the interface that these declarations are of.
inline constexpr int kMajorVersion = 0;
inline constexpr int kMinorVersion = 3;

struct Extension {
    std::size_t struct_size;
    int type;
    Extension* next;
};

struct Version {
    std::size_t struct_size;
    Extension* extensions;
    int major_version;
    int minor_version;
};

// What XLA asks of a handler before it calls it: the handler fills in its version and properties.
struct Metadata {
    std::size_t struct_size;
    Version version;
    std::uint32_t traits;
    std::int64_t state_type;   // 0: it keeps no state
};

inline constexpr int kMetadataExtension = 1;
struct MetadataExtension {
    Extension base;
    Metadata* metadata;
};

struct Error;   // XLA's, who frees what a handler returns

inline constexpr int kInvalidArgument = 3, kFailedPrecondition = 9;
struct ErrorArguments {
    std::size_t struct_size;
    Extension* extensions;
    const char* message;
    int code;
};

inline constexpr int kFloat16 = 10, kFloat32 = 11, kFloat64 = 12, kBfloat16 = 16;   // of arrays and attributes
inline constexpr int kPredicate = 1;

struct Buffer {
    std::size_t struct_size;
    Extension* extensions;
    int dtype;
    void* data;
    std::int64_t rank;
    std::int64_t* lengths;
};

inline constexpr int kBufferType = 1;   // of arguments and of results
struct Buffers {
    std::size_t struct_size;
    Extension* extensions;
    std::int64_t count;
    int* types;
    void** values;
};

struct Text {
    const char* data;
    std::size_t length;
};

struct Scalar {
    int dtype;
    void* value;
};

inline constexpr int kScalarAttribute = 3, kTextAttribute = 4;
struct Attributes {
    std::size_t struct_size;
    Extension* extensions;
    std::int64_t count;
    int* types;
    Text** names;
    void** values;
};

// The functions of XLA that a handler calls; those behind are not used.
struct Functions {
    std::size_t struct_size;
    Extension* extensions;
    Version version;
    const void* internal;
    Error* (*create_error)(ErrorArguments*);
};

struct Call {
    std::size_t struct_size;
    Extension* extensions;
    const Functions* functions;
    void* context;
    int stage;
    Buffers arguments;
    Buffers results;
    Attributes attributes;
};

using Handler = Error*(Call*);

}  // namespace hushvec::xla
