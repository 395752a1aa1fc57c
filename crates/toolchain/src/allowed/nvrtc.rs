//! Options of NVRTC: the documented ones, and undocumented ones that its library accepts.

use super::CompilerOption;
use super::Ruling::{self, Allowed, Refused};
use super::Value::{self, Macro, None, Number, Numbers, OneOf, Path, SomeOf, Switch, Text, Word};

const fn option(long: &'static str, short: &'static str, value: Value, ruling: Ruling) -> CompilerOption {
    CompilerOption { long, short, value, ruling }
}

const WRITES: Ruling = Refused("it writes a file");
const READS: Ruling = Refused("it reads a file");
const NO_PTX: Ruling = Refused("its output is not PTX");
const INTERNAL: Ruling = Refused("it passes arbitrary options to a part of the compiler");
const UNDOCUMENTED: Ruling = Refused("NVIDIA does not document it");

/// All options, in the order of NVIDIA's documentation.
pub const NVRTC_OPTIONS: &[CompilerOption] = &[
    option(
        "--gpu-architecture",
        "-arch",
        Text,
        Refused("the architecture is that of --arch, or of the task's [target]"),
    ),
    option("--device-c", "-dc", None, Allowed),
    option("--device-w", "-dw", None, Allowed),
    option("--relocatable-device-code", "-rdc", Switch, Allowed),
    option("--extensible-whole-program", "-ewp", None, Allowed),
    option("--enable-tile", "-enable-tile", None, NO_PTX),
    option("--tile-only", "-tile-only", None, NO_PTX),
    option("--simt-only", "-simt-only", None, Allowed),
    option("--default-tile", "-default-tile", None, NO_PTX),
    option("--diagnose-implicit-tile-var", "-diagnose-implicit-tile-var", None, NO_PTX),
    option("--device-debug", "-G", None, Allowed),
    option("--generate-line-info", "-lineinfo", None, Allowed),
    option("--dopt", "-dopt", OneOf(&["on"]), Allowed),
    option("--Ofast-compile", "-Ofc", OneOf(&["0", "min", "mid", "max"]), Allowed),
    option("--ptxas-options", "-Xptxas", Text, INTERNAL),
    option("--maxrregcount", "-maxrregcount", Number, Allowed),
    option("--ftz", "-ftz", Switch, Allowed),
    option("--prec-sqrt", "-prec-sqrt", Switch, Allowed),
    option("--prec-div", "-prec-div", Switch, Allowed),
    option("--fmad", "-fmad", Switch, Allowed),
    option("--use_fast_math", "-use_fast_math", None, Allowed),
    option("--extra-device-vectorization", "-extra-device-vectorization", None, Allowed),
    option(
        "--modify-stack-limit",
        "-modify-stack-limit",
        Switch,
        Refused("it changes limits of the process"),
    ),
    option("--dlink-time-opt", "-dlto", None, NO_PTX),
    option("--gen-opt-lto", "-gen-opt-lto", None, NO_PTX),
    option("--optix-ir", "-optix-ir", None, NO_PTX),
    option("--jump-table-density", "-jtd", Number, Allowed),
    option("--device-stack-protector", "-device-stack-protector", Switch, Allowed),
    option("--no-cache", "-no-cache", None, Allowed),
    option("--frandom-seed", "-frandom-seed", Word, Allowed),
    option("--define-macro", "-D", Macro, Allowed),
    option("--undefine-macro", "-U", Word, Allowed),
    option(
        "--include-path",
        "-I",
        Path,
        Refused("it reads files of another directory; use -I on the command line"),
    ),
    option("--use-bundled-headers", "-use-bundled-headers", Path, WRITES),
    option("--pre-include", "-include", Path, READS),
    option("--no-source-include", "-no-source-include", None, Allowed),
    option("--std", "-std", OneOf(&["c++03", "c++11", "c++14", "c++17", "c++20", "c++23"]), Allowed),
    option("--builtin-move-forward", "-builtin-move-forward", Switch, Allowed),
    option("--builtin-initializer-list", "-builtin-initializer-list", Switch, Allowed),
    option("--pch", "-pch", None, WRITES),
    option("--create-pch", "-create-pch", Path, WRITES),
    option("--use-pch", "-use-pch", Path, READS),
    option("--pch-dir", "-pch-dir", Path, WRITES),
    option("--pch-verbose", "-pch-verbose", Switch, Refused("precompiled headers are refused")),
    option("--pch-messages", "-pch-messages", Switch, Refused("precompiled headers are refused")),
    option(
        "--instantiate-templates-in-pch",
        "-instantiate-templates-in-pch",
        Switch,
        Refused("precompiled headers are refused"),
    ),
    option("--disable-warnings", "-w", None, Allowed),
    option("--Wreorder", "-Wreorder", None, Allowed),
    option(
        "--warning-as-error",
        "-Werror",
        SomeOf(&["all-warnings", "reorder", "deprecated-declarations"]),
        Allowed,
    ),
    option("--restrict", "-restrict", None, Allowed),
    option("--device-as-default-execution-space", "-default-device", None, Allowed),
    option("--device-int128", "-device-int128", None, Allowed),
    option("--device-float128", "-device-float128", None, Allowed),
    option("--optimization-info", "-opt-info", OneOf(&["inline"]), Allowed),
    option("--display-error-number", "-err-no", None, Allowed),
    option("--no-display-error-number", "-no-err-no", None, Allowed),
    option("--diag-error", "-diag-error", Numbers, Allowed),
    option("--diag-suppress", "-diag-suppress", Numbers, Allowed),
    option("--diag-warn", "-diag-warn", Numbers, Allowed),
    option("--brief-diagnostics", "-brief-diag", Switch, Refused("messages would lose their source lines")),
    option("--time", "-time", Path, WRITES),
    option(
        "--split-compile",
        "-split-compile",
        Number,
        Refused("Warpproof decides how many threads compile"),
    ),
    option("--fdevice-syntax-only", "-fdevice-syntax-only", None, NO_PTX),
    option("--minimal", "-minimal", None, Allowed),
    option("--fdevice-time-trace", "-fdevice-time-trace", Path, WRITES),
    option("--options-file", "-optf", Path, READS),
    option("-Xcudafe", "-Xcudafe", Text, INTERNAL),
    option("-Xopt", "-Xopt", Text, INTERNAL),
    option("-Xllc", "-Xllc", Text, INTERNAL),
    option("--cuda-api-version", "-cuda-api-version", Text, UNDOCUMENTED),
    option("--enable-cache-trace", "-enable-cache-trace", None, UNDOCUMENTED),
    option("--numba-debug", "-numba-debug", None, UNDOCUMENTED),
    option("--no-lineinfo-inlined-at", "-no-lineinfo-ia", None, UNDOCUMENTED),
    option("--discard-value-names", "-discard-value-names", Switch, UNDOCUMENTED),
    option("--uumn", "-uumn", None, UNDOCUMENTED),
    option("--fassociative-math", "-fassociative-math", None, UNDOCUMENTED),
    option("--generate-builtins", "-genbuiltins", None, UNDOCUMENTED),
    option("--version-ident", "-dQ", Switch, UNDOCUMENTED),
];
