//! `cargo xtask corpus`: parses and prints PTX of two compilers, and assembles the printed text with ptxas.
//!
//! Modules come from `corpus/cuda/*.cu`, compiled with NVRTC of two CUDA releases for several architectures and kinds
//! of debug information, and from the PTX in `corpus/triton/ptx`. A module passes if it parses without an error, if
//! printing is stable (the printed text parses to a tree that prints the same), and if ptxas generates the same machine
//! code from the printed text as from the original. Machine code is compared as nvdisasm's text, unless the cubins are equal.
//!
//! The PTX from NVRTC stays in `target/corpus`, where the benchmark of the parser reads it.

use std::{
    collections::BTreeSet,
    env, fs, panic,
    path::{Path, PathBuf},
    time::Instant,
};

use warpproof_ptx::{LineIndex, parse, print};
use warpproof_toolchain::{AssembleError, CompileOptions, Options, Source, Toolchain};

use crate::part::Part;
use crate::root;

/// Modules compiled from each CUDA source. With this many, every architecture is combined with every compiler release and
/// every kind of debug information several times, and CI stays within its time limit.
const MODULES_PER_SOURCE: usize = 5;
/// The smallest size of the corpus, so that a broken selection does not pass.
const LEAST_MODULES: usize = 150;
/// The architectures that `75+` in a header selects, from its number on.
const ARCHITECTURES: [&str; 7] = ["75", "80", "86", "89", "90", "100", "120"];
const CUDA_RELEASES: [u32; 2] = [12, 13];

/// The folder of the modules compiled by NVRTC.
fn directory() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("corpus")
}

/// Builds and checks every module whose name contains `filter`, `jobs` at a time.
pub(crate) fn run(part: &Part, filter: Option<&str>, jobs: usize) -> Result<String, String> {
    let start = Instant::now();
    let corpus = root().join("corpus");
    let mut modules = cuda_modules(&corpus)?;
    modules.extend(triton_modules(&corpus)?);
    if modules.len() < LEAST_MODULES {
        return Err(format!(
            "expected at least {LEAST_MODULES} modules in the corpus, found {}",
            modules.len()
        ));
    }
    modules.retain(|module| filter.is_none_or(|filter| module.name.contains(filter)));
    if modules.is_empty() {
        return Err("no module's name contains the filter".to_owned());
    }
    let toolchains = Toolchains::find()?;
    let place = directory();
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    remove_stale(&place, filter, &modules)?;

    let results =
        part.each(jobs, &modules, |module| (module, check(module, toolchains.of(module.cuda), &place)));
    let note = results.note("modules");
    let outcomes: Vec<(&Module, Outcome)> = results.into_results().collect();
    let seconds = start.elapsed().as_secs_f64();
    report(&outcomes, seconds)?;
    Ok(note)
}

/// Removes modules of an earlier selection, which the benchmark would include.
fn remove_stale(place: &Path, filter: Option<&str>, modules: &[Module]) -> Result<(), String> {
    if filter.is_some() {
        return Ok(());
    }
    let made = modules.iter().filter(|module| matches!(module.origin, Origin::Cuda { .. }));
    let current: BTreeSet<String> = made.map(|module| format!("{}.ptx", module.name)).collect();
    for path in files(place, "ptx")? {
        let known =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| current.contains(name));
        if !known {
            fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// One compiler of each release.
struct Toolchains([Toolchain; 2]);

impl Toolchains {
    fn find() -> Result<Self, String> {
        let find = |major: u32| {
            Toolchain::find(&Options::from_env().with_cuda(major))
                .map_err(|error| format!("CUDA {major}: {error}"))
        };
        Ok(Self([find(CUDA_RELEASES[0])?, find(CUDA_RELEASES[1])?]))
    }

    fn of(&self, major: u32) -> &Toolchain {
        &self.0[usize::from(major != CUDA_RELEASES[0])]
    }
}

/// Debug information that the compiler writes in addition to the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DebugInfo {
    None,
    Lines,
    Full,
}

impl DebugInfo {
    const ALL: [Self; 3] = [Self::None, Self::Lines, Self::Full];

    fn name(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Lines => "lines",
            Self::Full => "debug",
        }
    }

    fn ptxas_flag(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Lines => Some("-lineinfo"),
            Self::Full => Some("-g"),
        }
    }
}

/// A module to check.
#[derive(Clone, Debug)]
struct Module {
    /// Unique, and the file name below `target/corpus` of one that is made.
    name: String,
    /// `sm_89`
    arch: String,
    /// The release of CUDA whose ptxas assembles it, and whose NVRTC compiles it if it is CUDA C++.
    cuda: u32,
    debug: DebugInfo,
    /// Further flags of ptxas.
    ptxas: Vec<String>,
    origin: Origin,
}

#[derive(Clone, Debug)]
enum Origin {
    /// CUDA C++, with its path relative to the root and further options of NVRTC.
    Cuda { path: String, text: String, options: Vec<String> },
    /// PTX that is committed.
    Ptx(String),
}

/// The `//@key: value` lines of a source.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    /// `//@arch: 75 80` or `//@arch: 80+`: the architectures it compiles for.
    arch: Vec<String>,
    /// `//@options: …`: for NVRTC.
    options: Vec<String>,
    /// `//@ptxas: …`: for ptxas.
    ptxas: Vec<String>,
    /// `//@not: cuda-13 debug sm_75`: the compiler fails on modules with all of the named properties, so they are
    /// left out.
    not: Vec<Vec<String>>,
}

impl Header {
    fn read(text: &str) -> Result<Self, String> {
        let mut header = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.strip_prefix("//@").and_then(|rest| rest.split_once(':')) else {
                continue;
            };
            let words = || value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            match key {
                "arch" => header.arch = architectures(value)?,
                "options" => header.options = words(),
                "ptxas" => header.ptxas = words(),
                "not" => header.not.push(words()),
                // Used by tests that run the kernel.
                "launch" => {}
                _ => return Err(format!("unknown header line `//@{key}:`")),
            }
        }
        if header.arch.is_empty() {
            return Err("expected a line `//@arch:` with the architectures it compiles for".to_owned());
        }
        Ok(header)
    }

    fn excludes(&self, cuda: u32, arch: &str, debug: DebugInfo) -> bool {
        let properties = [format!("cuda-{cuda}"), format!("sm_{arch}"), debug.name().to_owned()];
        self.not.iter().any(|named| named.iter().all(|property| properties.contains(property)))
    }
}

fn architectures(list: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for word in list.split_whitespace() {
        if let Some(first) = word.strip_suffix('+') {
            let from = ARCHITECTURES.iter().position(|arch| *arch == first);
            let from =
                from.ok_or_else(|| format!("expected an architecture of the corpus, found `{word}`"))?;
            all.extend(ARCHITECTURES[from..].iter().map(|arch| (*arch).to_owned()));
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            all.push(word.to_owned());
        } else {
            return Err(format!("expected an architecture, found `{word}`"));
        }
    }
    Ok(all)
}

/// The modules to compile from the CUDA sources.
fn cuda_modules(corpus: &Path) -> Result<Vec<Module>, String> {
    let mut modules = Vec::new();
    for (index, path) in files(&corpus.join("cuda"), "cu")?.into_iter().enumerate() {
        let text = read(&path)?;
        let header = Header::read(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let stem = stem(&path);
        for (cuda, arch, debug) in selection(index, &header) {
            modules.push(Module {
                name: format!("{stem}.cuda{cuda}.sm_{arch}.{}", debug.name()),
                arch: format!("sm_{arch}"),
                cuda,
                debug,
                ptxas: header.ptxas.clone(),
                origin: Origin::Cuda {
                    path: format!("corpus/cuda/{stem}.cu"),
                    text: text.clone(),
                    options: header.options.clone(),
                },
            });
        }
    }
    Ok(modules)
}

/// Which modules to compile from the source with this index.
///
/// One counter cycles through the architectures and through the six pairs of release and debug information. Seven and
/// six have no common divisor, so it reaches all 42 combinations; the index starts each source at a different combination.
fn selection(index: usize, header: &Header) -> Vec<(u32, String, DebugInfo)> {
    let mut chosen = Vec::new();
    let kinds = CUDA_RELEASES.len() * DebugInfo::ALL.len();
    // A source for few architectures has fewer combinations than the loop visits.
    for step in index * MODULES_PER_SOURCE..index * MODULES_PER_SOURCE + header.arch.len() * kinds {
        if chosen.len() == MODULES_PER_SOURCE {
            break;
        }
        let arch = &header.arch[step % header.arch.len()];
        // The turn keeps release and architecture from changing in lockstep when the count of architectures is even.
        let kind = (step + step / (header.arch.len() * kinds) + step / header.arch.len()) % kinds;
        let cuda = CUDA_RELEASES[kind % CUDA_RELEASES.len()];
        let debug = DebugInfo::ALL[kind / CUDA_RELEASES.len()];
        let one = (cuda, arch.clone(), debug);
        if !header.excludes(cuda, arch, debug) && !chosen.contains(&one) {
            chosen.push(one);
        }
    }
    chosen
}

/// The committed PTX of Triton. Other tests launch it by its manifest, which must list exactly these files.
fn triton_modules(corpus: &Path) -> Result<Vec<Module>, String> {
    let triton = corpus.join("triton");
    let manifest: serde_json::Value = serde_json::from_str(&read(&triton.join("manifest.json"))?)
        .map_err(|error| format!("corpus/triton/manifest.json: {error}"))?;
    let listed: BTreeSet<String> = manifest["modules"]
        .as_array()
        .ok_or("corpus/triton/manifest.json lists no modules")?
        .iter()
        .filter_map(|module| module["file"].as_str().map(str::to_owned))
        .collect();
    let mut modules = Vec::new();
    let mut found = BTreeSet::new();
    for path in files(&triton.join("ptx"), "ptx")? {
        let text = read(&path)?;
        let arch =
            parse(&text).0.target().iter().find(|target| target.starts_with("sm_")).map(ToString::to_string);
        let arch = arch.ok_or_else(|| format!("{}: no target", path.display()))?;
        let stem = stem(&path);
        found.insert(format!("ptx/{stem}.ptx"));
        modules.push(Module {
            name: format!("triton.{stem}"),
            arch,
            cuda: CUDA_RELEASES[0],
            debug: DebugInfo::Lines,
            ptxas: Vec::new(),
            origin: Origin::Ptx(text),
        });
    }
    if listed != found {
        let differing: Vec<_> = listed.symmetric_difference(&found).cloned().collect();
        return Err(format!("corpus/triton: manifest and files disagree about {}", differing.join(", ")));
    }
    Ok(modules)
}

/// The result of a module.
#[derive(Debug)]
struct Outcome {
    bytes: usize,
    parsed: bool,
    verdict: Verdict,
}

#[derive(Debug)]
enum Verdict {
    /// The machine code is the same.
    Same,
    /// ptxas does not accept the original, for this reason.
    Refused(String),
    /// The module failed: Warpproof or the corpus is wrong.
    Failed(String),
}

fn check(module: &Module, toolchain: &Toolchain, place: &Path) -> Outcome {
    let (mut bytes, mut parsed) = (0, false);
    let verdict = source(module, toolchain).and_then(|ptx| {
        bytes = ptx.len();
        if let Origin::Cuda { .. } = module.origin {
            let file = place.join(format!("{}.ptx", module.name));
            fs::write(&file, &ptx).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        // A panic is a bug in the parser; the report must name the module.
        let printed = panic::catch_unwind(|| round_trip(&ptx))
            .unwrap_or_else(|_| Err("the parser or the printer panicked".to_owned()))?;
        parsed = true;
        compare(module, toolchain, &ptx, &printed)
    });
    Outcome { bytes, parsed, verdict: verdict.unwrap_or_else(Verdict::Failed) }
}

/// The PTX of a module.
fn source(module: &Module, toolchain: &Toolchain) -> Result<String, String> {
    match &module.origin {
        Origin::Ptx(text) => Ok(text.clone()),
        Origin::Cuda { path, text, options } => {
            let options = CompileOptions {
                line_info: module.debug == DebugInfo::Lines,
                debug: module.debug == DebugInfo::Full,
                std: Some("c++17".to_owned()),
                extra: options.clone(),
                ..CompileOptions::new(&module.arch)
            };
            let compiled = toolchain.compile(&Source::new(path, text), &options);
            compiled.map(|compiled| compiled.ptx).map_err(|error| error.to_string())
        }
    }
}

/// Parses without an error, prints, and parses again to something that prints the same.
fn round_trip(ptx: &str) -> Result<String, String> {
    let (tree, errors) = parse(ptx);
    fail_on(&errors, ptx, "does not parse")?;
    let printed = print(&tree);
    let reprinted = {
        let (tree, errors) = parse(&printed);
        fail_on(&errors, &printed, "does not parse after printing")?;
        print(&tree)
    };
    if let Some(difference) = first_difference(&printed, &reprinted) {
        return Err(format!("prints differently the second time\n{difference}"));
    }
    Ok(printed)
}

fn fail_on(errors: &[warpproof_ptx::Error], text: &str, what: &str) -> Result<(), String> {
    if errors.is_empty() {
        return Ok(());
    }
    let index = LineIndex::new(text);
    let mut message = vec![format!("{what}: {} errors", errors.len())];
    message.extend(errors.iter().take(5).map(|error| {
        let position = index.position(error.span.start);
        let line = index.line(position.line).unwrap_or_default().trim();
        format!("  {position}: {error}: {line}")
    }));
    Err(message.join("\n"))
}

/// Assembles both texts and compares the machine code.
fn compare(module: &Module, toolchain: &Toolchain, ptx: &str, printed: &str) -> Result<Verdict, String> {
    let flags: Vec<&str> =
        module.debug.ptxas_flag().into_iter().chain(module.ptxas.iter().map(String::as_str)).collect();
    let original = match toolchain.ptxas(ptx, &module.arch, &flags) {
        Ok(assembled) => assembled.cubin,
        Err(AssembleError::Rejected { log, .. }) => {
            let reason = log.lines().find(|line| line.contains("error") || line.contains("fatal"));
            return Ok(Verdict::Refused(reason.unwrap_or("no reason given").trim().to_owned()));
        }
        Err(error) => return Err(error.to_string()),
    };
    let reprinted = toolchain.ptxas(printed, &module.arch, &flags).map_err(|error| match error {
        AssembleError::Rejected { log, .. } => {
            let lines: Vec<&str> = log.lines().take(5).collect();
            format!("ptxas accepts the original but not the printed text\n  {}", lines.join("\n  "))
        }
        other => other.to_string(),
    })?;
    if original == reprinted.cubin {
        return Ok(Verdict::Same);
    }
    let sass = |cubin: &[u8]| toolchain.sass(cubin).map_err(|error| error.to_string());
    let (left, right) = (sass(&original)?, sass(&reprinted.cubin)?);
    if !left.contains("/*0000*/") {
        return Err("nvdisasm printed no instruction to compare".to_owned());
    }
    match first_difference(&left, &right) {
        None => Ok(Verdict::Same),
        Some(difference) => Err(format!("the machine code differs\n{difference}")),
    }
}

/// The first lines in which two texts differ, a few of each, with the line number.
fn first_difference(left: &str, right: &str) -> Option<String> {
    const SHOWN: usize = 4;
    if left == right {
        return None;
    }
    let (left, right): (Vec<&str>, Vec<&str>) = (left.lines().collect(), right.lines().collect());
    let at = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let mut shown = vec![format!("  at line {} of {} and {}", at + 1, left.len(), right.len())];
    for (lines, sign) in [(left, '-'), (right, '+')] {
        shown.extend(lines.iter().skip(at).take(SHOWN).map(|line| format!("  {sign}{line}")));
    }
    Some(shown.join("\n"))
}

fn report(outcomes: &[(&Module, Outcome)], seconds: f64) -> Result<(), String> {
    let mut failed = Vec::new();
    for (module, outcome) in outcomes {
        match &outcome.verdict {
            Verdict::Same => {}
            Verdict::Refused(reason) => println!("{}: refused by ptxas: {reason}", module.name),
            Verdict::Failed(reason) => {
                println!("FAILED {}: {reason}", module.name);
                failed.push(module.name.as_str());
            }
        }
    }
    let parsed = outcomes.iter().filter(|(_, outcome)| outcome.parsed).count();
    let compared = outcomes.iter().filter(|(_, outcome)| matches!(outcome.verdict, Verdict::Same)).count();
    let refused =
        outcomes.iter().filter(|(_, outcome)| matches!(outcome.verdict, Verdict::Refused(_))).count();
    let kilobytes = outcomes.iter().map(|(_, outcome)| outcome.bytes).sum::<usize>() / 1000;
    println!(
        "corpus: {} modules, {kilobytes} kB, {parsed} parsed, {compared} compared and the same, {refused} refused by \
         ptxas, {} failed, {seconds:.0} s",
        outcomes.len(),
        failed.len(),
    );
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("{} of {} modules of the corpus failed: {}", failed.len(), outcomes.len(), failed.join(", ")))
}

/// The files of a directory with an extension, sorted, so that the selection is the same everywhere.
fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let at = |error| format!("{}: {error}", directory.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.extension().is_some_and(|found| found == extension) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use warpproof_toolchain::WITHOUT_TOOLCHAIN;

    #[test]
    fn reads_header_lines() {
        let text =
            "// What it does.\n//@arch: 86+ 90a\n//@options: -a --b\n//@ptxas: -c\n//@launch: kernel=k\n";
        let header = Header::read(text).unwrap();
        assert_eq!(header.arch, ["86", "89", "90", "100", "120", "90a"]);
        assert_eq!((header.options.len(), header.ptxas.len()), (2, 1));
        for wrong in ["", "//@arch:", "//@arch: 77+", "//@arch: ada", "//@arch: 75+\n//@archs: 75"] {
            assert!(Header::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn leaves_out_what_a_header_excludes() {
        let header = Header::read("//@arch: 75+\n//@not: cuda-13 debug\n").unwrap();
        assert!(header.excludes(13, "75", DebugInfo::Full));
        assert!(!header.excludes(12, "75", DebugInfo::Full));
        for index in 0..20 {
            let chosen = selection(index, &header);
            assert_eq!(chosen.len(), MODULES_PER_SOURCE);
            assert!(!chosen.iter().any(|(cuda, _, debug)| (*cuda, *debug) == (13, DebugInfo::Full)));
        }
    }

    #[test]
    fn every_combination_is_met() {
        let modules = cuda_modules(&root().join("corpus")).unwrap();
        let mut met: BTreeMap<(u32, &str, DebugInfo), usize> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for module in &modules {
            assert!(names.insert(&module.name), "{} twice", module.name);
            *met.entry((module.cuda, &module.arch, module.debug)).or_default() += 1;
        }
        for cuda in CUDA_RELEASES {
            for arch in ARCHITECTURES {
                for debug in DebugInfo::ALL {
                    let count = met.get(&(cuda, &format!("sm_{arch}"), debug)).copied().unwrap_or_default();
                    assert!(count >= 2, "CUDA {cuda}, sm_{arch}, {debug:?}: {count} modules");
                }
            }
        }
    }

    #[test]
    fn a_difference_is_shown_where_it_begins() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let shown = first_difference("a\nb\nc", "a\nx\nc").unwrap();
        assert_eq!(shown, "  at line 2 of 3 and 3\n  -b\n  -c\n  +x\n  +c");
        assert!(first_difference("a", "a\nb").unwrap().contains("+b"));
    }

    /// The comparison must be able to fail: it finds an addition that became a subtraction, and ignores spacing.
    #[test]
    fn toolchain_other_machine_code_is_found() {
        let toolchain = Toolchain::find(&Options::from_env());
        let toolchain = toolchain.unwrap_or_else(|error| panic!("{error}\n{WITHOUT_TOOLCHAIN}"));
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n\
                    .reg .b64 %rd<3>;\n.reg .b32 %r<4>;\nld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\n\
                    ld.global.u32 %r1, [%rd2];\nadd.s32 %r2, %r1, 5;\nst.global.u32 [%rd2], %r2;\nret;\n}\n";
        let module = Module {
            name: "k".to_owned(),
            arch: "sm_80".to_owned(),
            cuda: CUDA_RELEASES[0],
            debug: DebugInfo::Lines,
            ptxas: Vec::new(),
            origin: Origin::Ptx(text.to_owned()),
        };
        let same = compare(&module, &toolchain, text, &text.replace(", ", ",\n  "));
        assert!(matches!(same, Ok(Verdict::Same)), "{same:?}");
        let other = compare(&module, &toolchain, text, &text.replace("add.s32", "sub.s32"));
        assert!(other.is_err_and(|message| message.starts_with("the machine code differs")));
        let refused = compare(&module, &toolchain, &text.replace("add.s32", "add.s99"), text);
        assert!(matches!(&refused, Ok(Verdict::Refused(reason)) if reason.contains("s99")), "{refused:?}");
    }

    #[test]
    fn a_stable_text_makes_the_round_trip_and_a_broken_one_says_where() {
        let text = ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";
        assert!(round_trip(text).unwrap().contains("ret"));
        let message = round_trip(&text.replace("ret;", "add.s32 %r1, , 4;")).unwrap_err();
        assert!(message.contains("does not parse: 1 errors") && message.contains("6:"), "{message}");
    }
}
