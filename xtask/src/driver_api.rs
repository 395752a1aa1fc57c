//! `cargo xtask driver-api`: every function of CUDA's driver API, from NVIDIA's own headers.
//!
//! A function has one name in `cuda.h` and another in the library: macros replace `cuMemAlloc` by `cuMemAlloc_v2`, and by
//! `…_ptds` and `…_ptsz` if a program uses a per-thread default stream. Older versions of a function stay in the library
//! under their older names; the header declares them in a part for NVIDIA's own use. The list of symbols contains all of
//! them; `crates/driver` exports each.
//!
//! `cudaTypedefs.h` has a type for each version of a function, with the CUDA version that introduced it. Joined with the
//! symbols, it determines which symbol `cuGetProcAddress` must return for a CUDA version.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use warpproof_toolchain::{Options, Part, Toolchain};

use crate::root;

/// One symbol per line.
const SYMBOLS: &str = "crates/driver/data/api.txt";
/// A name, a version and a symbol per line.
const VERSIONS: &str = "crates/driver/data/versions.txt";

/// The headers of these releases are read; the lists are the union of all of them.
const RELEASES: [u32; 2] = [12, 13];
/// Headers with functions of the driver. The wheels lack the profiler's header, but contain its types.
const HEADERS: [&str; 4] = ["cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"];
/// Headers with a type for each version of a function.
const TYPES: [&str; 5] = [
    "cudaTypedefs.h",
    "cudaGLTypedefs.h",
    "cudaEGLTypedefs.h",
    "cudaVDPAUTypedefs.h",
    "cudaProfilerTypedefs.h",
];
/// Suffixes of symbols that use a per-thread default stream.
const PER_THREAD: [&str; 2] = ["_ptds", "_ptsz"];

/// A function's name, and the suffix of its symbols if they use a per-thread default stream.
type Form = (String, &'static str);

/// Compares both files with the headers, or writes them.
pub(crate) fn run(bless: bool) -> Result<(), String> {
    let mut symbols = BTreeSet::new();
    let mut forms: BTreeMap<Form, BTreeSet<u32>> = BTreeMap::new();
    let mut releases = Vec::new();
    for release in RELEASES {
        let toolchain =
            Toolchain::find(&Options::from_env().with_cuda(release)).map_err(|error| error.to_string())?;
        let headers = toolchain.part(Part::Headers).ok_or("found no CUDA headers")?;
        releases.push(headers.version.to_string());
        for name in HEADERS {
            symbols.extend(symbols_of(&read(&headers.include_dirs, name)?));
        }
        for name in TYPES {
            for (form, version) in forms_of(&read(&headers.include_dirs, name)?) {
                forms.entry(form).or_default().insert(version);
            }
        }
    }
    // A function with a type but no declaration has had one version only.
    for (name, end) in forms.keys() {
        if !symbols
            .iter()
            .any(|symbol| stem(symbol) == Some((name, end)) || *symbol == format!("{name}{end}"))
        {
            symbols.insert(format!("{name}{end}"));
        }
    }
    let versions = versions(&symbols, &forms)?;
    let from = releases.join(" and ");
    let count = symbols.len();
    let mut list = format!(
        "# Every symbol of the driver API. Written by `cargo xtask driver-api --bless` from CUDA {from}.\n"
    );
    for symbol in symbols {
        let _ = writeln!(list, "{symbol}");
    }
    let mut table = format!(
        "# A name, the version of CUDA at which a form of it came, and the symbol of that form.\n\
         # Written by `cargo xtask driver-api --bless` from CUDA {from}.\n"
    );
    for (name, version, symbol) in &versions {
        let _ = writeln!(table, "{name} {version} {symbol}");
    }
    for (path, text) in [(SYMBOLS, list), (VERSIONS, table)] {
        if bless {
            write(&root().join(path), &text)?;
        } else if fs::read_to_string(root().join(path)).ok().as_deref() != Some(text.as_str()) {
            return Err(format!(
                "{path} does not match the headers of CUDA {from}; run `cargo xtask driver-api --bless` to write it"
            ));
        }
    }
    println!("driver-api: {count} symbols, {} versions of functions", versions.len());
    Ok(())
}

fn read(directories: &[PathBuf], name: &str) -> Result<String, String> {
    let path = directories.iter().map(|directory| directory.join(name)).find(|path| path.is_file());
    let path = path.ok_or_else(|| format!("found no CUDA header {name}"))?;
    fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().ok_or("the file has no folder")?;
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The library's symbols for a header's functions.
fn symbols_of(header: &str) -> BTreeSet<String> {
    // After the first `#undef`, names are not replaced any more: those are the older versions.
    let undefined = header.lines().scan(0, |offset, line| {
        let start = *offset;
        *offset += line.len() + 1;
        Some((start, line))
    });
    let undefined = undefined.filter(|(_, line)| line.trim_start().starts_with("#undef cu"));
    let (current, older) = match undefined.map(|(start, _)| start).next() {
        Some(at) => header.split_at(at),
        None => (header, ""),
    };
    let macros = macros_of(header);
    let mut symbols: BTreeSet<String> = declared(older).map(str::to_owned).collect();
    for name in declared(current) {
        symbols.insert(macros.get(name).map_or(name, |(symbol, _)| symbol).to_owned());
    }
    // The versions for a per-thread default stream are named by macros only.
    for (symbol, end) in macros.values() {
        if let Some(end) = end
            && symbols.contains(*symbol)
        {
            symbols.insert(format!("{symbol}{end}"));
        }
    }
    symbols
}

/// The names of the functions that a text declares.
fn declared(text: &str) -> impl Iterator<Item = &str> {
    text.split("CUDAAPI").skip(1).filter_map(|after| {
        let (name, rest) = split_name(after.trim_start());
        (name.starts_with("cu") && rest.trim_start().starts_with('(')).then_some(name)
    })
}

/// The macros of a header: the symbol of each name, and its suffix for a per-thread default stream.
fn macros_of(header: &str) -> BTreeMap<&str, (&str, Option<&'static str>)> {
    let mut macros = BTreeMap::new();
    for line in header.lines() {
        let Some(rest) = line.trim_start().strip_prefix("#define") else { continue };
        let (name, body) = split_name(rest.trim_start());
        let body = body.trim_start();
        let wrapped = [("__CUDA_API_PTDS(", PER_THREAD[0]), ("__CUDA_API_PTSZ(", PER_THREAD[1])]
            .into_iter()
            .find_map(|(open, end)| Some((body.strip_prefix(open)?, Some(end))));
        let (body, end) = wrapped.unwrap_or((body, None));
        let (symbol, _) = split_name(body);
        if name.starts_with("cu") && symbol.starts_with("cu") && !symbol.ends_with("_ptsz") {
            macros.insert(name, (symbol, end));
        }
    }
    macros
}

/// The C identifier at the start of a text, and the rest.
fn split_name(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()))
}

/// The versions of functions for which a header has types: `PFN_cuCtxCreate_v3020` is version 3020.
fn forms_of(header: &str) -> Vec<(Form, u32)> {
    let mut forms = Vec::new();
    for after in header.split("CUDAAPI *PFN_").skip(1) {
        let (name, _) = split_name(after);
        let end = PER_THREAD.into_iter().find(|end| name.ends_with(end)).unwrap_or_default();
        let name = name.strip_suffix(end).unwrap_or(name);
        if let Some((name, version)) = name.rsplit_once("_v")
            && let Ok(version) = version.parse()
        {
            forms.push(((name.to_owned(), end), version));
        }
    }
    forms
}

/// A symbol without its version number: the name and the suffix.
fn stem(symbol: &str) -> Option<(&str, &'static str)> {
    let end = PER_THREAD.into_iter().find(|end| symbol.ends_with(end)).unwrap_or_default();
    let (name, number) = symbol.strip_suffix(end)?.rsplit_once("_v")?;
    number.parse::<u8>().ok().map(|_| (name, end))
}

/// The symbol of each version of each function.
///
/// A function's symbols are numbered in the order of their introduction, so the latest version is the highest number. There are
/// no types for versions that are older than the types themselves, so there may be more symbols than versions.
fn versions(
    symbols: &BTreeSet<String>,
    forms: &BTreeMap<Form, BTreeSet<u32>>,
) -> Result<Vec<(String, u32, String)>, String> {
    let mut table = Vec::new();
    for ((name, end), versions) in forms {
        let mut named: Vec<&String> = symbols
            .iter()
            .filter(|symbol| match stem(symbol) {
                // `cuStreamGetCtx_v2` is a name with a type of its own, not a later version of `cuStreamGetCtx`.
                Some((stem, of)) => {
                    let plain = symbol.strip_suffix(end).unwrap_or(symbol);
                    (stem == name && of == *end && !forms.contains_key(&(plain.to_owned(), end)))
                        || (plain == name && symbol.ends_with(end))
                }
                None => **symbol == format!("{name}{end}"),
            })
            .collect();
        // The symbol without a number is the first version.
        named.sort_by_key(|symbol| (symbol.len(), *symbol));
        if named.len() < versions.len() {
            return Err(format!(
                "{name}{end} has {} versions and only these symbols: {named:?}",
                versions.len()
            ));
        }
        for (version, symbol) in versions.iter().rev().zip(named.iter().rev()) {
            table.push((name.clone(), *version, (*symbol).clone()));
        }
    }
    table.sort();
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "
#define cuOpen cuOpen_v3
#define cuCopy __CUDA_API_PTDS(cuCopy_v2)
#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
    #define cuWait __CUDA_API_PTSZ(cuWait)
#endif
CUresult CUDAAPI cuOpen(int how);
CUresult CUDAAPI
cuCopy(void *to);
CUresult CUDAAPI cuWait(void);
typedef void (CUDAAPI *CUhostFn)(void *userData);
#if defined(__CUDA_API_VERSION_INTERNAL)
    #undef cuOpen
    CUresult CUDAAPI cuOpen(void);
    CUresult CUDAAPI cuOpen_v2(int how);
    CUresult CUDAAPI cuCopy(int to);
#endif
";
    const TYPES: &str = "
typedef CUresult (CUDAAPI *PFN_cuOpen_v3020)(int how);
typedef CUresult (CUDAAPI *PFN_cuOpen_v12050)(int how);
typedef CUresult (CUDAAPI *PFN_cuCopy_v3020)(void *to);
typedef CUresult (CUDAAPI *PFN_cuCopy_v7000_ptds)(void *to);
typedef CUresult (CUDAAPI *PFN_cuWait_v2000)(void);
typedef CUresult (CUDAAPI *PFN_cuWait_v7000_ptsz)(void);
";

    #[test]
    fn symbols_are_those_of_the_library() {
        let symbols: Vec<String> = symbols_of(HEADER).into_iter().collect();
        let expected = [
            "cuCopy",
            "cuCopy_v2",
            "cuCopy_v2_ptds",
            "cuOpen",
            "cuOpen_v2",
            "cuOpen_v3",
            "cuWait",
            "cuWait_ptsz",
        ];
        assert_eq!(symbols, expected);
    }

    #[test]
    fn a_version_has_the_form_that_came_with_it() {
        let mut forms: BTreeMap<Form, BTreeSet<u32>> = BTreeMap::new();
        for (form, version) in forms_of(TYPES) {
            forms.entry(form).or_default().insert(version);
        }
        let table = versions(&symbols_of(HEADER), &forms).expect("every version has a symbol");
        let lines: Vec<String> =
            table.iter().map(|(name, version, symbol)| format!("{name} {version} {symbol}")).collect();
        let expected = [
            "cuCopy 3020 cuCopy_v2",
            "cuCopy 7000 cuCopy_v2_ptds",
            "cuOpen 3020 cuOpen_v2",
            "cuOpen 12050 cuOpen_v3",
            "cuWait 2000 cuWait",
            "cuWait 7000 cuWait_ptsz",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_version_without_a_symbol_is_an_error() {
        let forms = BTreeMap::from([(("cuWait".to_owned(), ""), BTreeSet::from([2000, 3000]))]);
        assert!(versions(&symbols_of(HEADER), &forms).is_err());
    }
}
