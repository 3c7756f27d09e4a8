// Does not compile where python/bindings/xla_ffi.hpp differs from the headers that jaxlib ships.
#include <cstddef>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi.hpp"

namespace ours = hushvec::xla;

// A struct of theirs may have more at its end: such fields are added from version to version.
#define SAME_SIZE(OURS, THEIRS) static_assert(sizeof(ours::OURS) == sizeof(THEIRS))
#define NOT_LARGER(OURS, THEIRS) static_assert(sizeof(ours::OURS) <= sizeof(THEIRS))
#define SAME_PLACE(OURS, FIELD, THEIRS, THEIR_FIELD)                              \
    static_assert(offsetof(ours::OURS, FIELD) == offsetof(THEIRS, THEIR_FIELD) && \
                  sizeof(ours::OURS::FIELD) == sizeof(THEIRS::THEIR_FIELD))

static_assert(ours::kMajorVersion == XLA_FFI_API_MAJOR && ours::kMinorVersion <= XLA_FFI_API_MINOR);

SAME_SIZE(Extension, XLA_FFI_Extension_Base);
SAME_PLACE(Extension, struct_size, XLA_FFI_Extension_Base, struct_size);
SAME_PLACE(Extension, type, XLA_FFI_Extension_Base, type);
SAME_PLACE(Extension, next, XLA_FFI_Extension_Base, next);

SAME_SIZE(Version, XLA_FFI_Api_Version);
SAME_PLACE(Version, struct_size, XLA_FFI_Api_Version, struct_size);
SAME_PLACE(Version, extensions, XLA_FFI_Api_Version, extension_start);
SAME_PLACE(Version, major_version, XLA_FFI_Api_Version, major_version);
SAME_PLACE(Version, minor_version, XLA_FFI_Api_Version, minor_version);

NOT_LARGER(Metadata, XLA_FFI_Metadata);
SAME_PLACE(Metadata, struct_size, XLA_FFI_Metadata, struct_size);
SAME_PLACE(Metadata, version, XLA_FFI_Metadata, api_version);
SAME_PLACE(Metadata, traits, XLA_FFI_Metadata, traits);
SAME_PLACE(Metadata, state_type, XLA_FFI_Metadata, state_type_id);

SAME_SIZE(MetadataExtension, XLA_FFI_Metadata_Extension);
SAME_PLACE(MetadataExtension, base, XLA_FFI_Metadata_Extension, extension_base);
SAME_PLACE(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);
static_assert(ours::kMetadataExtension == XLA_FFI_Extension_Metadata);

SAME_SIZE(ErrorArguments, XLA_FFI_Error_Create_Args);
SAME_PLACE(ErrorArguments, struct_size, XLA_FFI_Error_Create_Args, struct_size);
SAME_PLACE(ErrorArguments, extensions, XLA_FFI_Error_Create_Args, extension_start);
SAME_PLACE(ErrorArguments, message, XLA_FFI_Error_Create_Args, message);
SAME_PLACE(ErrorArguments, code, XLA_FFI_Error_Create_Args, errc);
static_assert(ours::kInvalidArgument == XLA_FFI_Error_Code_INVALID_ARGUMENT);
static_assert(ours::kFailedPrecondition == XLA_FFI_Error_Code_FAILED_PRECONDITION);

SAME_SIZE(Buffer, XLA_FFI_Buffer);
SAME_PLACE(Buffer, struct_size, XLA_FFI_Buffer, struct_size);
SAME_PLACE(Buffer, dtype, XLA_FFI_Buffer, dtype);
SAME_PLACE(Buffer, data, XLA_FFI_Buffer, data);
SAME_PLACE(Buffer, rank, XLA_FFI_Buffer, rank);
SAME_PLACE(Buffer, lengths, XLA_FFI_Buffer, dims);
static_assert(ours::kFloat16 == XLA_FFI_DataType_F16 && ours::kFloat32 == XLA_FFI_DataType_F32);
static_assert(ours::kFloat64 == XLA_FFI_DataType_F64 && ours::kBfloat16 == XLA_FFI_DataType_BF16);
static_assert(ours::kPredicate == XLA_FFI_DataType_PRED);

SAME_SIZE(Buffers, XLA_FFI_Args);
SAME_PLACE(Buffers, count, XLA_FFI_Args, size);
SAME_PLACE(Buffers, types, XLA_FFI_Args, types);
SAME_PLACE(Buffers, values, XLA_FFI_Args, args);
SAME_SIZE(Buffers, XLA_FFI_Rets);
SAME_PLACE(Buffers, count, XLA_FFI_Rets, size);
SAME_PLACE(Buffers, types, XLA_FFI_Rets, types);
SAME_PLACE(Buffers, values, XLA_FFI_Rets, rets);
static_assert(ours::kBufferType == XLA_FFI_ArgType_BUFFER && ours::kBufferType == XLA_FFI_RetType_BUFFER);

SAME_SIZE(Attributes, XLA_FFI_Attrs);
SAME_PLACE(Attributes, count, XLA_FFI_Attrs, size);
SAME_PLACE(Attributes, types, XLA_FFI_Attrs, types);
SAME_PLACE(Attributes, names, XLA_FFI_Attrs, names);
SAME_PLACE(Attributes, values, XLA_FFI_Attrs, attrs);
static_assert(ours::kScalarAttribute == XLA_FFI_AttrType_SCALAR && ours::kTextAttribute == XLA_FFI_AttrType_STRING);

SAME_SIZE(Text, XLA_FFI_ByteSpan);
SAME_PLACE(Text, data, XLA_FFI_ByteSpan, ptr);
SAME_PLACE(Text, length, XLA_FFI_ByteSpan, len);
SAME_SIZE(Scalar, XLA_FFI_Scalar);
SAME_PLACE(Scalar, dtype, XLA_FFI_Scalar, dtype);
SAME_PLACE(Scalar, value, XLA_FFI_Scalar, value);

NOT_LARGER(Functions, XLA_FFI_Api);
SAME_PLACE(Functions, version, XLA_FFI_Api, api_version);
SAME_PLACE(Functions, create_error, XLA_FFI_Api, XLA_FFI_Error_Create);

NOT_LARGER(Call, XLA_FFI_CallFrame);
SAME_PLACE(Call, struct_size, XLA_FFI_CallFrame, struct_size);
SAME_PLACE(Call, extensions, XLA_FFI_CallFrame, extension_start);
SAME_PLACE(Call, functions, XLA_FFI_CallFrame, api);
SAME_PLACE(Call, context, XLA_FFI_CallFrame, ctx);
SAME_PLACE(Call, stage, XLA_FFI_CallFrame, stage);
SAME_PLACE(Call, arguments, XLA_FFI_CallFrame, args);
SAME_PLACE(Call, results, XLA_FFI_CallFrame, rets);
SAME_PLACE(Call, attributes, XLA_FFI_CallFrame, attrs);
