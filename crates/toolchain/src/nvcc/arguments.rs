//! The arguments that `warpproof nvcc` adds to those of a user.
//!
//! A program runs on the software GPU if it loads the shared CUDA runtime and contains PTX, and findings name CUDA lines if
//! it has line information. Each is added only if the user's arguments do not decide it. Arguments also come from option
//! files (`-optf`), which CMake writes, and from two variables of the environment.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Architecture of programs whose arguments name none: the default device of `warpproof exec`.
const ARCHITECTURE: &str = "sm_89";
/// Largest option file that is read, in bytes.
const MAX_OPTIONS: u64 = 1 << 20;
/// Maximum number of option files.
const MAX_FILES: usize = 64;

/// Options whose value belongs to another program, and may look like an option of nvcc.
const FOREIGN: &[&str] = &[
    "Xcompiler",
    "compiler-options",
    "Xlinker",
    "linker-options",
    "Xptxas",
    "ptxas-options",
    "Xnvlink",
    "nvlink-options",
    "Xarchive",
    "archive-options",
    "Xcudafe",
    "Xfatbin",
    "Xcicc",
];

/// Options after which nothing is linked.
const UNLINKED: &[&str] = &[
    "c",
    "compile",
    "dc",
    "device-c",
    "dw",
    "device-w",
    "dlink",
    "device-link",
    "lib",
    "cubin",
    "ptx",
    "fatbin",
    "optix-ir",
    "ltoir",
    "cuda",
    "E",
    "preprocess",
    "M",
    "MM",
    "generate-dependencies",
    "generate-nonsystem-dependencies",
];

/// Options that write code for one architecture into a file.
const ONE_ARCHITECTURE: &[&str] = &["cubin", "ptx", "optix-ir", "ltoir"];

/// The arguments for nvcc, and remarks for the user.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// Sentences about what was added or could not be.
    pub notes: Vec<String>,
    /// Whether the program is linked with the library of the driver.
    pub links_driver: bool,
    /// Whether a program is linked, with a shared runtime.
    loads_runtime: bool,
}

/// One option: its name without dashes, its value, and the index of the word with the value.
#[derive(Debug)]
struct Choice {
    name: String,
    value: Option<String>,
    at: Option<usize>,
}

impl Choice {
    fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.name.as_str())
    }
}

impl Plan {
    /// Completes the arguments of a user.
    pub(super) fn new(user: &[OsString], variables: &[String]) -> Self {
        let words: Vec<String> = user.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut choices = choices(&words);
        let mut elsewhere: Vec<String> =
            variables.iter().flat_map(|text| text.split_whitespace().map(str::to_owned)).collect();
        elsewhere.extend(option_files(&choices));
        choices.extend(self::choices(&elsewhere).into_iter().map(|choice| Choice { at: None, ..choice }));

        let mut plan =
            Self { arguments: user.to_vec(), notes: Vec::new(), links_driver: false, loads_runtime: false };
        let has = |names: &[&str]| choices.iter().any(|choice| choice.is(names));
        let mut added: Vec<String> = Vec::new();
        let runtime = choices.iter().find(|choice| choice.is(&["cudart"]));
        if runtime.is_none() {
            added.push("-cudart=shared".to_owned());
        }
        let shared = runtime.is_none_or(|choice| choice.value.as_deref() == Some("shared"));
        if !has(&["G", "device-debug", "lineinfo", "generate-line-info"]) {
            added.push("-lineinfo".to_owned());
        }
        if !has(&["arch", "gpu-architecture", "code", "gpu-code", "gencode", "generate-code"]) {
            added.push(format!("-arch={ARCHITECTURE}"));
        } else if !has(ONE_ARCHITECTURE) {
            plan.embed_ptx(&choices, &mut added);
        }
        plan.loads_runtime = shared && !has(UNLINKED);
        plan.links_driver = choices.iter().any(|choice| {
            choice.name == "lcuda"
                || choice.is(&["l", "library"])
                    && choice
                        .value
                        .as_deref()
                        .is_some_and(|names| names.split(',').any(|name| name == "cuda"))
        });
        plan.arguments.splice(0..0, added.into_iter().map(OsString::from));
        plan
    }

    /// Adds PTX for each architecture that has machine code only.
    fn embed_ptx(&mut self, choices: &[Choice], added: &mut Vec<String>) {
        let mut virtuals: Vec<String> = Vec::new();
        let mut missing: Vec<String> = Vec::new();
        for choice in choices.iter().filter(|choice| choice.is(&["gencode", "generate-code"])) {
            let Some((architecture, codes)) = choice.value.as_deref().and_then(generated) else { continue };
            let ptx = codes.iter().filter(|code| code.starts_with("compute_"));
            virtuals.extend(ptx.map(|code| (*code).to_owned()));
            if codes.iter().any(|code| code.starts_with("sm_")) {
                missing.push(architecture.to_owned());
            }
        }
        for architecture in missing {
            if !virtuals.contains(&architecture) {
                added.push(format!("-gencode=arch={architecture},code={architecture}"));
                virtuals.push(architecture);
            }
        }
        // `-arch` alone embeds PTX; with `-code`, only what it lists is embedded.
        let Some(code) = choices.iter().find(|choice| choice.is(&["code", "gpu-code"])) else { return };
        let architecture = choices
            .iter()
            .find(|choice| choice.is(&["arch", "gpu-architecture"]))
            .and_then(|choice| choice.value.as_deref())
            .filter(|name| name.starts_with("compute_"));
        let listed = code.value.as_deref().unwrap_or_default();
        if !listed.contains("sm_") || listed.contains("compute_") {
            return;
        }
        match (architecture, code.at.and_then(|at| self.arguments.get_mut(at))) {
            (Some(architecture), Some(word)) => word.push(format!(",{architecture}")),
            _ => self.notes.push(format!(
                "the program gets no PTX, which the software GPU needs; add a `compute_` architecture to `-code={listed}`"
            )),
        }
    }

    /// Adds a directory of headers or libraries after the user's, and before nvcc's own.
    pub fn search(&mut self, flag: &str, dir: &Path) {
        self.arguments.extend([flag.into(), dir.into()]);
    }

    /// The program finds the runtime in this directory when it starts, after `LD_LIBRARY_PATH`.
    pub(super) fn load_from(&mut self, libraries: &Path) {
        // nvcc separates values by commas.
        let plain = libraries.to_str().filter(|path| !path.contains([',', '"', '\\', ' ']));
        if let Some(path) = plain.filter(|_| self.loads_runtime) {
            for value in ["--enable-new-dtags", "-rpath", path] {
                self.arguments.extend(["-Xlinker".into(), value.into()]);
            }
        }
    }
}

/// The options among words.
fn choices(words: &[String]) -> Vec<Choice> {
    let mut choices = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let index = at;
        at += 1;
        let Some(name) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|n| !n.is_empty())
        else {
            continue;
        };
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some((value.to_owned(), index))),
            // An option without a value, such as `-c`, then has the next word as one, which is not used.
            None => (name, words.get(at).map(|value| (value.clone(), at))),
        };
        if FOREIGN.contains(&name) && !word.contains('=') {
            at += 1;
        }
        let (value, at) = value.unzip();
        choices.push(Choice { name: name.to_owned(), value, at });
    }
    choices
}

/// The words of all option files.
fn option_files(choices: &[Choice]) -> Vec<String> {
    let named = choices.iter().filter(|choice| choice.is(&["optf", "options-file"]));
    let files = named.filter_map(|choice| choice.value.as_deref()).flat_map(|names| names.split(','));
    let mut words = Vec::new();
    for name in files.take(MAX_FILES) {
        let mut bytes = Vec::new();
        // nvcc itself reports a file that cannot be read.
        if File::open(name).is_ok_and(|file| file.take(MAX_OPTIONS).read_to_end(&mut bytes).is_ok()) {
            let text = String::from_utf8_lossy(&bytes);
            words.extend(text.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned()));
        }
    }
    words
}

/// The virtual architecture and the codes of `arch=compute_89,code=[sm_89,compute_89]`.
fn generated(value: &str) -> Option<(&str, Vec<&str>)> {
    let (before, codes) = value.split_once("code=")?;
    let architecture = before.trim_start_matches(['"', '\'']).strip_prefix("arch=")?.trim_end_matches(',');
    let codes = codes.split(',').map(|code| code.trim_matches(['[', ']', '"', '\'', '\\'])).collect();
    Some((architecture, codes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &str) -> Plan {
        let user: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        Plan::new(&user, &[])
    }

    fn line(words: &str) -> String {
        let words: Vec<String> =
            plan(words).arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn defaults_are_added_unless_the_user_decides() {
        for (user, added) in [
            ("a.cu -o a", "-cudart=shared -lineinfo -arch=sm_89 "),
            ("-cudart static a.cu", "-lineinfo -arch=sm_89 "),
            ("--cudart=none a.cu", "-lineinfo -arch=sm_89 "),
            ("-G a.cu", "-cudart=shared -arch=sm_89 "),
            ("--generate-line-info a.cu", "-cudart=shared -arch=sm_89 "),
            ("-arch=sm_80 a.cu", "-cudart=shared -lineinfo "),
            ("--gpu-architecture compute_80 a.cu", "-cudart=shared -lineinfo "),
            // Values of other programs are not nvcc's options.
            ("-Xcompiler -G -Xptxas -lineinfo a.cu", "-cudart=shared -lineinfo -arch=sm_89 "),
            ("-Xcompiler=-G -lineinfo a.cu", "-cudart=shared -arch=sm_89 "),
            ("-ptx a.cu -o cudart", "-cudart=shared -lineinfo -arch=sm_89 "),
            ("", "-cudart=shared -lineinfo -arch=sm_89"),
        ] {
            assert_eq!(line(user), format!("{added}{user}"), "{user}");
        }
    }

    #[test]
    fn machine_code_gets_ptx_of_its_virtual_architecture() {
        let basic = "-cudart=shared -lineinfo ";
        for (user, added) in [
            ("-gencode arch=compute_89,code=sm_89 a.cu", "-gencode=arch=compute_89,code=compute_89 "),
            (
                "--generate-code=arch=compute_89,code=[sm_89] a.cu",
                "-gencode=arch=compute_89,code=compute_89 ",
            ),
            ("--generate-code=arch=compute_89,code=[compute_89,sm_89] a.cu", ""),
            ("-gencode arch=compute_80,code=compute_80 a.cu", ""),
            (
                "-gencode=arch=compute_75,code=sm_80 -gencode arch=compute_75,code=sm_86 a.cu",
                "-gencode=arch=compute_75,code=compute_75 ",
            ),
            ("-gencode arch=compute_80,code=sm_80 -gencode arch=compute_80,code=compute_80 a.cu", ""),
            ("-gencode=arch=compute_90,code=\"sm_90,compute_90\" a.cu", ""),
            ("-gencode arch=compute_80,code=lto_80 a.cu", ""),
            // One architecture only.
            ("-cubin -gencode arch=compute_89,code=sm_89 a.cu", ""),
        ] {
            assert_eq!(line(user), format!("{basic}{added}{user}"), "{user}");
        }
        assert_eq!(
            line("-arch=compute_80 -code=sm_80 a.cu"),
            format!("{basic}-arch=compute_80 -code=sm_80,compute_80 a.cu")
        );
        assert_eq!(
            line("-arch compute_75 -code sm_75,sm_80 a.cu"),
            format!("{basic}-arch compute_75 -code sm_75,sm_80,compute_75 a.cu")
        );
        assert_eq!(
            line("-arch=compute_75 -code=compute_80 a.cu"),
            format!("{basic}-arch=compute_75 -code=compute_80 a.cu")
        );
    }

    #[test]
    fn files_and_variables_decide_too() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("flags.rsp");
        std::fs::write(&file, "\"-cudart=static\" -G\n-I/somewhere").unwrap();
        let user = [OsString::from("--options-file"), file.into(), OsString::from("a.cu")];
        let plan = Plan::new(&user, &["-arch=sm_75 -code=sm_75".to_owned()]);
        assert_eq!(plan.arguments, user);
        assert_eq!(plan.notes.len(), 1, "{:?}", plan.notes);
        let absent = [OsString::from("-optf"), dir.path().join("absent").into()];
        assert_eq!(Plan::new(&absent, &[]).arguments.len(), 5);
    }

    #[test]
    fn only_a_linked_program_gets_a_search_path() {
        for (user, expected) in [
            ("a.cu -o a", true),
            ("-shared -Xcompiler -fPIC a.cu -o a.so", true),
            ("-c a.cu", false),
            ("-dc a.cu", false),
            ("--device-link a.o", false),
            ("-cudart static a.cu", false),
            ("-cudart shared a.cu", true),
        ] {
            let mut plan = plan(user);
            let before = plan.arguments.len();
            plan.load_from(Path::new("/cache/lib"));
            assert_eq!(plan.arguments.len() > before, expected, "{user}");
        }
        let mut plan = plan("a.cu");
        let before = plan.arguments.len();
        plan.load_from(Path::new("/a,b/lib"));
        assert_eq!(plan.arguments.len(), before);
    }

    #[test]
    fn the_library_of_the_driver_is_recognized() {
        for user in ["a.cu -lcuda", "a.cu -l cuda", "a.cu --library=m,cuda", "-l=cuda a.cu"] {
            assert!(plan(user).links_driver, "{user}");
        }
        for user in ["a.cu -lcudart", "a.cu -l cudadevrt", "cuda", "-o lcuda a.cu"] {
            assert!(!plan(user).links_driver, "{user}");
        }
    }
}
