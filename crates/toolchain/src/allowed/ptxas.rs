//! Options of ptxas: those that `ptxas --help` lists.

use super::CompilerOption;
use super::Ruling::{self, Allowed, Refused};
use super::Value::{self, None, Number, Numbers, OneOf, Path, Switch, Text, Word};

const fn option(long: &'static str, short: &'static str, value: Value, ruling: Ruling) -> CompilerOption {
    CompilerOption { long, short, value, ruling }
}

const ALREADY: Ruling = Refused("Warpproof sets it");
const LISTS: Ruling = Refused("it does not print a module's resources");

/// All options, in the order of `ptxas --help`.
pub const PTXAS_OPTIONS: &[CompilerOption] = &[
    option("--Ofast-compile", "-Ofc", OneOf(&["0", "min", "mid", "max"]), Allowed),
    option("--allow-expensive-optimizations", "-allow-expensive-optimizations", Switch, Allowed),
    option("--compile-as-tools-patch", "-astoolspatch", None, Refused("its output is not a cubin")),
    option("--compile-only", "-c", None, Allowed),
    option("--compiler-annotations", "-annotate", None, Allowed),
    option("--def-load-cache", "-dlcm", OneOf(&["ca", "cg", "cs", "lu", "cv"]), Allowed),
    option("--def-store-cache", "-dscm", OneOf(&["wb", "cg", "cs", "wt"]), Allowed),
    option("--device-debug", "-g", None, Allowed),
    option("--device-function-maxrregcount", "-func-maxrregcount", Word, Allowed),
    option("--device-stack-protector", "-device-stack-protector", Switch, Allowed),
    option("--disable-optimizer-constants", "-disable-optimizer-consts", None, Allowed),
    option("--disable-warnings", "-w", None, Allowed),
    option("--dont-merge-basicblocks", "-no-bb-merge", None, Allowed),
    option("--entry", "-e", Word, Allowed),
    option("--extensible-whole-program", "-ewp", None, Allowed),
    option("--fmad", "-fmad", Switch, Allowed),
    option("--force-load-cache", "-flcm", OneOf(&["ca", "cg", "cs", "lu", "cv"]), Allowed),
    option("--force-store-cache", "-fscm", OneOf(&["wb", "cg", "cs", "wt"]), Allowed),
    option("--g-tensor-memory-access-check", "-g-tmem-access-check", None, Allowed),
    option("--generate-line-info", "-lineinfo", None, Allowed),
    option("--gno-tensor-memory-access-check", "-gno-tmem-access-check", None, Allowed),
    option("--gpu-name", "-arch", Text, ALREADY),
    option("--help", "-h", None, LISTS),
    option("--input-as-string", "-ias", Text, Refused("it assembles a text other than the module")),
    option(
        "--jobserver",
        "-jobserver",
        None,
        Refused("it reads and writes pipes of the process that started it"),
    ),
    option("--legacy-bar-warp-wide-behavior", "-legacy-bar-warp-wide-behavior", None, Allowed),
    option("--list-arch", "-arch-ls", None, LISTS),
    option("--list-version", "-version-ls", None, LISTS),
    option("--machine", "-m", OneOf(&["64"]), Allowed),
    option("--make-errors-visible-at-exit", "-make-errors-visible-at-exit", None, Allowed),
    option("--maxntid", "-maxntid", Numbers, Allowed),
    option("--maxrregcount", "-maxrregcount", Word, Allowed),
    option("--minnctapersm", "-minnctapersm", Number, Allowed),
    option("--opt-level", "-O", OneOf(&["0", "1", "2", "3", "4"]), Allowed),
    option("--optimize-float-atomics", "-opt-fp-atomics", None, Allowed),
    option("--options-file", "-optf", Path, Refused("it reads a file")),
    option("--output-file", "-o", Path, Refused("it writes a file")),
    option("--override-directive-values", "-override-directive-values", None, Allowed),
    option("--position-independent-code", "-pic", Switch, Allowed),
    option("--preserve-relocs", "-preserve-relocs", None, Allowed),
    option("--register-usage-level", "-regUsageLevel", Number, Allowed),
    option("--return-at-end", "-ret-end", None, Allowed),
    option("--sanitize", "-sanitize", Text, Refused("it adds code that the module does not have")),
    option("--sp-bounds-check", "-sp-bounds-check", None, Allowed),
    option(
        "--split-compile",
        "-split-compile",
        Number,
        Refused("Warpproof decides how many threads compile"),
    ),
    option(
        "--suppress-async-bulk-multicast-advisory-warning",
        "-suppress-async-bulk-multicast-advisory-warning",
        None,
        Allowed,
    ),
    option("--suppress-debug-info", "-suppress-debug-info", None, Allowed),
    option("--suppress-double-demote-warning", "-suppress-double-demote-warning", None, Allowed),
    option("--suppress-sparse-mma-advisory-info", "-suppress-sparse-mma-advisory-info", None, Allowed),
    option("--suppress-stack-size-warning", "-suppress-stack-size-warning", None, Allowed),
    option("--verbose", "-v", None, ALREADY),
    option("--verbose2", "-v2", None, ALREADY),
    option("--version", "-V", None, LISTS),
    option("--warn-on-double-precision-use", "-warn-double-usage", None, Allowed),
    option("--warn-on-local-memory-usage", "-warn-lmem-usage", None, Allowed),
    option("--warn-on-spills", "-warn-spills", None, Allowed),
    option("--warning-as-error", "-Werror", None, Allowed),
];
