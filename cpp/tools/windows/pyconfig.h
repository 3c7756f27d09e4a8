// What Python.h has to know of CPython for 64-bit Windows, when the other headers are those of another system's CPython of the same
// version: scripts/check_portable.py. Wheels are built with the headers of Windows' own Python.
#pragma once

#define MS_WINDOWS 1
#define MS_WIN32 1
#define MS_WIN64 1
#define NT_THREADS 1
#define WITH_THREAD 1
#define Py_ENABLE_SHARED 1
#define HAVE_DECLSPEC_DLL 1
#define USE_SOCKET 1
#define PLATLIBDIR "DLLs"

#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_VOID_P 8
#define SIZEOF_WCHAR_T 2
#define SIZEOF_TIME_T 8
#define SIZEOF_OFF_T 4
#define SIZEOF_FPOS_T 8
#define SIZEOF_HKEY 8
#define SIZEOF_PID_T 4
#define ALIGNOF_SIZE_T 8
#define ALIGNOF_MAX_ALIGN_T 8

#define HAVE_STDINT_H 1
#define HAVE_STDDEF_H 1
#define HAVE_STDARG_PROTOTYPES 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_ERRNO_H 1
#define HAVE_FCNTL_H 1
#define HAVE_IO_H 1
#define HAVE_PROCESS_H 1
#define HAVE_LONG_LONG 1
#define HAVE_SSIZE_T 1
#define HAVE_INT32_T 1
#define HAVE_INT64_T 1
#define HAVE_UINT32_T 1
#define HAVE_UINT64_T 1
#define PY_SUPPORT_TIER 1
#define WITH_DOC_STRINGS 1
#define WITH_PYMALLOC 1
