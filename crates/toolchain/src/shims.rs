//! Small replacements for host headers, which NVRTC does not provide.
//!
//! A header in the include path takes precedence. The replacements contain the parts of a standard header that device code uses
//! (fixed-width types, limits, constants, `std::min`, type traits) and omit everything that only host code can use. If they declare
//! too little, libcu++ replaces them: it has more, but takes seconds to compile.

use crate::cache::KeyBuilder;

/// Replacement texts by header name.
const TEXTS: &[(&str, &str)] = &[
    ("stdint.h", include_str!("../shims/stdint.h")),
    (STANDARD, include_str!("../shims/all.h")),
    ("sys/types.h", include_str!("../shims/types.h")),
    ("float.h", include_str!("../shims/float.h")),
    ("limits.h", include_str!("../shims/limits.h")),
    ("math.h", include_str!("../shims/math.h")),
    ("stddef.h", include_str!("../shims/stddef.h")),
    ("stdlib.h", include_str!("../shims/stdlib.h")),
    ("string.h", include_str!("../shims/string.h")),
    ("stdio.h", include_str!("../shims/stdio.h")),
    ("limits", include_str!("../shims/limits")),
    ("algorithm", include_str!("../shims/algorithm")),
    ("type_traits", include_str!("../shims/type_traits")),
    (CUDA_DRIVER, include_str!("../shims/cuda.h")),
];

/// The whole standard library.
pub(crate) const STANDARD: &str = "bits/stdc++.h";

/// The CUDA driver's header. CUDA's own version does not compile for the device.
const CUDA_DRIVER: &str = "cuda.h";

/// Headers that are aliases of another one.
const SAME: &[(&str, &str)] = &[
    ("cstdint", "stdint.h"),
    ("inttypes.h", "stdint.h"),
    ("cinttypes", "stdint.h"),
    ("cfloat", "float.h"),
    ("climits", "limits.h"),
    ("cmath", "math.h"),
    ("cstddef", "stddef.h"),
    ("cstdlib", "stdlib.h"),
    ("cstring", "string.h"),
    ("strings.h", "string.h"),
    ("memory.h", "string.h"),
    ("cstdio", "stdio.h"),
    ("utility", "algorithm"),
    ("numeric", "algorithm"),
    ("cudaTypedefs.h", CUDA_DRIVER),
];

/// Headers whose functions NVRTC declares anyway, or whose contents only host code can use.
const EMPTY: &[&str] = &[
    "any",
    "array",
    "assert.h",
    "atomic",
    "barrier",
    "bit",
    "bitset",
    "cassert",
    "ccomplex",
    "cctype",
    "cerrno",
    "cfenv",
    "charconv",
    "chrono",
    "ciso646",
    "clocale",
    "codecvt",
    "compare",
    "complex",
    "complex.h",
    "concepts",
    "condition_variable",
    "coroutine",
    "csetjmp",
    "csignal",
    "cstdarg",
    "ctime",
    "ctype.h",
    "cwchar",
    "cwctype",
    "deque",
    "dirent.h",
    "errno.h",
    "exception",
    "execution",
    "expected",
    "fcntl.h",
    "filesystem",
    "format",
    "forward_list",
    "fstream",
    "functional",
    "future",
    "getopt.h",
    "initializer_list",
    "iomanip",
    "ios",
    "iosfwd",
    "iostream",
    "istream",
    "iterator",
    "latch",
    "list",
    "locale",
    "locale.h",
    "map",
    "memory",
    "memory_resource",
    "mutex",
    "new",
    "numbers",
    "optional",
    "ostream",
    "pthread.h",
    "queue",
    "random",
    "ranges",
    "ratio",
    "regex",
    "scoped_allocator",
    "semaphore",
    "set",
    "shared_mutex",
    "signal.h",
    "span",
    "sstream",
    "stack",
    "stdarg.h",
    "stdbool.h",
    "stdexcept",
    "streambuf",
    "string",
    "string_view",
    "sys/stat.h",
    "sys/time.h",
    "system_error",
    "source_location",
    "stop_token",
    "syncstream",
    "thread",
    "time.h",
    "tuple",
    "typeindex",
    "typeinfo",
    "unistd.h",
    "unordered_map",
    "unordered_set",
    "valarray",
    "variant",
    "vector",
    "wchar.h",
];

/// Headers for which libcu++ declares more than ours.
const LIBCUXX: &[&str] = &[
    "array",
    "atomic",
    "barrier",
    "bit",
    "chrono",
    "complex",
    "concepts",
    "functional",
    "initializer_list",
    "iterator",
    "latch",
    "limits",
    "memory",
    "numeric",
    "optional",
    "ratio",
    "semaphore",
    "span",
    "tuple",
    "type_traits",
    "utility",
    "variant",
];

/// How much of the standard library is provided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// Our replacements.
    Small,
    /// libcu++, if it has the header.
    Full,
}

/// All headers that can be provided, with their texts.
pub(crate) fn all(extent: Extent) -> Vec<(&'static str, String)> {
    let same = SAME.iter().map(|(name, other)| (*name, format!("#include <{other}>\n")));
    let empty = EMPTY.iter().map(|name| (*name, "#pragma once\nnamespace std {}\n".to_owned()));
    let mut all: Vec<_> =
        TEXTS.iter().map(|(name, text)| (*name, (*text).to_owned())).chain(same).chain(empty).collect();
    if extent == Extent::Full {
        all.retain(|(name, _)| !LIBCUXX.contains(name));
        all.extend(LIBCUXX.iter().map(|name| (*name, from_libcuxx(name))));
    }
    all
}

/// Adds the replacement texts to a key, because builds depend on them.
pub(crate) fn add_to_key(key: &mut KeyBuilder) {
    for (name, text) in TEXTS {
        key.add(name.as_bytes()).add(text.as_bytes());
    }
}

fn from_libcuxx(name: &str) -> String {
    // libcu++ has no algorithms for the device, and its `swap` is in <utility>.
    let ours = if matches!(name, "utility" | "numeric") { "#include <algorithm>\n" } else { "" };
    format!(
        "#pragma once\n{ours}namespace std {{}}\n#if __has_include(<cuda/std/{name}>)\n#include <cuda/std/{name}>\n\
         namespace std {{\nusing namespace ::cuda::std;\n}}\n#endif\n"
    )
}

/// Whether a replacement with this name exists.
pub(crate) fn has(name: &str) -> bool {
    TEXTS.iter().any(|(own, _)| *own == name)
        || SAME.iter().any(|(own, _)| *own == name)
        || EMPTY.contains(&name)
        || LIBCUXX.contains(&name)
}

/// Whether a header belongs to a library that only host code uses.
pub(crate) fn is_host_library(name: &str) -> bool {
    const STARTS: &[&str] = &[
        "ATen/",
        "GL/",
        "GLFW/",
        "benchmark/",
        "boost/",
        "c10/cuda/",
        "cublas.h",
        "cublasLt",
        "cublas_v2",
        "cudaProfiler",
        "cuda_gl_interop",
        "cuda_profiler_api",
        "cudnn",
        "cufft.h",
        "cufftXt",
        "curand.h",
        "cusolver",
        "cusparse",
        "gtest/",
        "helper_",
        "mpi.h",
        "nccl",
        "npp",
        "nvToolsExt",
        "nvml",
        "nvrtc",
        "nvtx3/",
        "omp.h",
        "opencv2/",
        "pybind11/",
        "torch/",
    ];
    STARTS.iter().any(|start| name.starts_with(start))
}

/// Whether a member of `std` exists only on the host, so that libcu++ does not have it either.
pub(crate) fn is_host_member(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "accumulate",
        "cerr",
        "cin",
        "clog",
        "cout",
        "default_random_engine",
        "deque",
        "endl",
        "exception",
        "exit",
        "filesystem",
        "fixed",
        "fprintf",
        "function",
        "generate",
        "getenv",
        "getline",
        "hex",
        "ifstream",
        "invalid_argument",
        "iota",
        "istream",
        "istringstream",
        "list",
        "logic_error",
        "make_shared",
        "make_unique",
        "map",
        "max_element",
        "min_element",
        "mt19937",
        "mutex",
        "normal_distribution",
        "ofstream",
        "ostream",
        "ostringstream",
        "out_of_range",
        "queue",
        "rand",
        "random_device",
        "runtime_error",
        "set",
        "setprecision",
        "setw",
        "shared_ptr",
        "sort",
        "srand",
        "stof",
        "stoi",
        "string",
        "string_view",
        "stringstream",
        "terminate",
        "thread",
        "to_string",
        "uniform_int_distribution",
        "uniform_real_distribution",
        "unique_ptr",
        "unordered_map",
        "unordered_set",
        "vector",
    ];
    NAMES.contains(&name)
}

/// Whether the replacement is used even if CUDA has the header.
pub(crate) fn replaces_cudas(name: &str) -> bool {
    name == CUDA_DRIVER || name == "cudaTypedefs.h"
}

/// The header that declares a name which nvcc includes in every file.
pub(crate) fn declares(identifier: &str) -> Option<&'static str> {
    let fixed_width = |name: &str| {
        let name = name.strip_suffix("_t")?;
        let name = name.strip_prefix('u').unwrap_or(name).strip_prefix("int")?;
        let name = name.strip_prefix("_fast").or_else(|| name.strip_prefix("_least")).unwrap_or(name);
        matches!(name, "8" | "16" | "32" | "64" | "ptr" | "max").then_some("stdint.h")
    };
    let known = match identifier {
        "uint" | "ushort" | "ulong" | "u_char" => "sys/types.h",
        "INFINITY" | "NAN" | "HUGE_VAL" | "HUGE_VALF" => "math.h",
        "CHAR_BIT" => "limits.h",
        "EXIT_FAILURE" | "EXIT_SUCCESS" | "RAND_MAX" => "stdlib.h",
        "NULL" | "offsetof" => "stddef.h",
        "SIZE_MAX" => "stdint.h",
        _ if identifier.starts_with("FLT_") || identifier.starts_with("DBL_") => "float.h",
        _ if identifier.starts_with("M_") => "math.h",
        _ => {
            let (kind, end) = identifier.rsplit_once('_').unwrap_or_default();
            let limit = matches!(end, "MAX" | "MIN");
            let plain = matches!(
                kind,
                "INT"
                    | "UINT"
                    | "LONG"
                    | "ULONG"
                    | "LLONG"
                    | "ULLONG"
                    | "SHRT"
                    | "USHRT"
                    | "CHAR"
                    | "SCHAR"
                    | "UCHAR"
            );
            let sized = kind.trim_start_matches('U').strip_prefix("INT");
            let sized = sized.is_some_and(|bits| matches!(bits, "8" | "16" | "32" | "64" | "PTR"));
            return match (limit, plain, sized) {
                (true, true, _) => Some("limits.h"),
                (true, _, true) => Some("stdint.h"),
                _ => fixed_width(identifier),
            };
        }
    };
    Some(known)
}

/// The CUDA header that declares a type which library headers, such as cuBLAS, include.
pub(crate) fn declares_with_library(identifier: &str) -> Option<&'static str> {
    match identifier {
        "half" | "half2" | "__half" | "__half2" => Some("cuda_fp16.h"),
        "nv_bfloat16" | "nv_bfloat162" | "__nv_bfloat16" | "__nv_bfloat162" => Some("cuda_bf16.h"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_there_once() {
        for extent in [Extent::Small, Extent::Full] {
            let mut names: Vec<&str> = all(extent).into_iter().map(|(name, _)| name).collect();
            assert!(names.iter().all(|name| has(name)));
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        assert!(!has("cublas_v2.h") && !has("cuda_fp16.h") && !has(""));
    }

    #[test]
    fn names_lead_to_their_headers() {
        for (name, header) in [
            ("uint32_t", Some("stdint.h")),
            ("int_fast16_t", Some("stdint.h")),
            ("uintptr_t", Some("stdint.h")),
            ("UINT64_MAX", Some("stdint.h")),
            ("UINT_MAX", Some("limits.h")),
            ("FLT_MAX", Some("float.h")),
            ("INFINITY", Some("math.h")),
            ("M_PI", Some("math.h")),
            ("uint", Some("sys/types.h")),
            ("int24_t", None),
            ("TILE_MAX", None),
            ("x", None),
        ] {
            assert_eq!(declares(name), header, "{name}");
        }
    }
}
