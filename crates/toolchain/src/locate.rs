//! Finds NVIDIA's parts and selects those that work together.
//!
//! Rules are tried in a fixed order, and each part is searched for separately, because a machine often has them from different
//! sources: NVRTC from a Python wheel, ptxas from a toolkit. The selected parts must be compatible: headers of NVRTC's own release,
//! and a ptxas that is not older than the PTX version that NVRTC writes.

mod layout;
mod selection;

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::install;
use crate::limits::CompileLimits;
use crate::pins::Purpose;
use crate::version::Version;
pub use selection::Toolchain;

/// A part of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Compiles CUDA C++ to PTX; a library.
    Nvrtc,
    /// The headers of CUDA and of its C++ library.
    Headers,
    /// Assembles PTX to machine code.
    Ptxas,
    /// Disassembles machine code.
    Nvdisasm,
    /// Disassembles machine code, and prints other content of a cubin.
    Cuobjdump,
}

impl Part {
    /// Every part, in the order of use.
    pub const ALL: [Self; 5] = [Self::Nvrtc, Self::Headers, Self::Ptxas, Self::Nvdisasm, Self::Cuobjdump];

    /// The name shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvrtc => "NVRTC",
            Self::Headers => "CUDA headers",
            Self::Ptxas => "ptxas",
            Self::Nvdisasm => "nvdisasm",
            Self::Cuobjdump => "cuobjdump",
        }
    }

    /// Its purpose.
    pub fn purpose(self) -> &'static str {
        match self {
            Self::Nvrtc => "compiles CUDA C++ to PTX",
            Self::Headers => "needed by kernels that include headers such as cuda_fp16.h and mma.h",
            Self::Ptxas => "assembles PTX; reports registers, shared memory, spills",
            Self::Nvdisasm => "prints machine code",
            Self::Cuobjdump => "prints machine code if nvdisasm is missing",
        }
    }
}

/// How a part was found, in the order of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// `--toolchain DIR`.
    Flag,
    /// `WARPPROOF_TOOLCHAIN`.
    Variable,
    /// Installed by `warpproof toolchain install`.
    Cache,
    /// `CUDA_HOME`.
    CudaHome,
    /// `CUDA_PATH`.
    CudaPath,
    /// A directory of `PATH`, or of `LD_LIBRARY_PATH`.
    Path,
    /// The site-packages of the Python on `PATH`.
    SitePackages,
    /// The directory of NVIDIA's own installer.
    Default,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "--toolchain",
            Self::Variable => "WARPPROOF_TOOLCHAIN",
            Self::Cache => "warpproof's cache",
            Self::CudaHome => "CUDA_HOME",
            Self::CudaPath => "CUDA_PATH",
            Self::Path => "PATH",
            Self::SitePackages => "Python site-packages",
            Self::Default => "default location",
        })
    }
}

/// A part, its location, and the rule that found it.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// Which part.
    pub part: Part,
    /// The library, the program, or the first include directory.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Its version. A program that does not print its version does not run, and is not listed.
    pub version: Version,
    /// The rule that found it.
    pub rule: Rule,
    /// For headers, every directory to search, in order.
    #[serde(skip)]
    pub include_dirs: Vec<PathBuf>,
}

/// Paths need not be UTF-8, but JSON must be.
fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// The environment that the rules read; tests create their own.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `WARPPROOF_TOOLCHAIN`.
    pub toolchain: Option<PathBuf>,
    /// Warpproof's cache directory.
    pub cache: Option<PathBuf>,
    /// `CUDA_HOME`.
    pub cuda_home: Option<PathBuf>,
    /// `CUDA_PATH`.
    pub cuda_path: Option<PathBuf>,
    /// The directories of `PATH`.
    pub path: Vec<PathBuf>,
    /// The directories of `LD_LIBRARY_PATH`.
    pub library_path: Vec<PathBuf>,
    /// Python's site-packages, or `None` to query Python when they are needed.
    pub site_packages: Option<Vec<PathBuf>>,
    /// Directories of NVIDIA's installer.
    pub default_places: Vec<PathBuf>,
}

impl Environment {
    /// Reads the process's environment.
    pub fn read() -> Self {
        let variable = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let list = |name: &str| {
            env::var_os(name)
                .map(|v| env::split_paths(&v).filter(|p| p.is_absolute()).collect())
                .unwrap_or_default()
        };
        let cache = variable("WARPPROOF_CACHE").or_else(|| {
            let base = variable("XDG_CACHE_HOME")
                .filter(|p| p.is_absolute())
                .or_else(|| variable("HOME").map(|home| home.join(".cache")))
                .or_else(|| variable("LOCALAPPDATA"))?;
            Some(base.join("warpproof"))
        });
        Self {
            toolchain: variable("WARPPROOF_TOOLCHAIN"),
            cache,
            cuda_home: variable("CUDA_HOME"),
            cuda_path: variable("CUDA_PATH"),
            path: list("PATH"),
            library_path: list("LD_LIBRARY_PATH"),
            site_packages: None,
            default_places: vec![PathBuf::from("/usr/local/cuda")],
        }
    }
}

/// What to search for, and where.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--toolchain DIR`: searched first, and it must contain a part.
    pub explicit: Option<PathBuf>,
    /// Use only parts of this CUDA major version.
    pub cuda: Option<u32>,
    /// Whether to bypass the build cache.
    pub no_cache: bool,
    /// Limits of one compilation.
    pub limits: CompileLimits,
    /// `--allow-path DIR`: directories that a source or a task may read, in addition to its own.
    pub allowed: Vec<PathBuf>,
    /// The environment.
    pub environment: Environment,
}

impl Options {
    /// Defaults, with the environment of this process.
    pub fn from_env() -> Self {
        Self { environment: Environment::read(), ..Self::default() }
    }

    /// The same options for one CUDA major version.
    #[must_use]
    pub fn with_cuda(mut self, major: u32) -> Self {
        self.cuda = Some(major);
        self
    }
}

/// Required parts that are missing.
#[derive(Clone, Debug)]
pub struct NotFound {
    /// Which parts.
    pub missing: Vec<Part>,
    /// Why, in one lowercase sentence.
    pub reason: String,
    /// The command that fixes it, if there is one.
    pub mend: Option<String>,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if let Some(mend) = &self.mend {
            write!(f, "; run `{mend}`")?;
        }
        Ok(())
    }
}

impl std::error::Error for NotFound {}

/// All parts found, in the order of the rules.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// All parts; a part may occur several times.
    pub found: Vec<Found>,
    /// The directory given by flag or variable, if it contains no part.
    pub empty_explicit: Option<PathBuf>,
}

impl Survey {
    /// Applies every rule.
    pub fn complete(options: &Options) -> Self {
        Self::until(options, |_| false)
    }

    /// Applies the rules in order until `enough` is satisfied: querying Python takes longer than compiling a kernel.
    pub(crate) fn until(options: &Options, enough: impl Fn(&Self) -> bool) -> Self {
        let environment = &options.environment;
        let mut survey = Self::default();
        let explicit = options
            .explicit
            .as_ref()
            .map(|dir| (dir, Rule::Flag))
            .or_else(|| environment.toolchain.as_ref().map(|dir| (dir, Rule::Variable)));
        if let Some((dir, rule)) = explicit {
            survey.add(std::slice::from_ref(dir), rule);
            if survey.found.is_empty() {
                // A silent fallback would use another compiler than the user requested.
                survey.empty_explicit = Some(dir.clone());
                return survey;
            }
        }
        let rules: [(Rule, &dyn Fn() -> Vec<PathBuf>); 6] = [
            (Rule::Cache, &|| {
                let cache = environment.cache.as_deref();
                cache.map(|cache| install::set_directories(cache, Purpose::Kernels)).unwrap_or_default()
            }),
            (Rule::CudaHome, &|| environment.cuda_home.iter().cloned().collect()),
            (Rule::CudaPath, &|| environment.cuda_path.iter().cloned().collect()),
            (Rule::Path, &|| layout::roots_on_path(&environment.path, &environment.library_path)),
            (Rule::SitePackages, &|| environment.site_packages.clone().unwrap_or_else(ask_python)),
            (Rule::Default, &|| environment.default_places.clone()),
        ];
        for (rule, roots) in rules {
            if enough(&survey) {
                break;
            }
            survey.add(&roots(), rule);
        }
        survey
    }

    fn add(&mut self, roots: &[PathBuf], rule: Rule) {
        for root in roots {
            for found in layout::parts_below(root, rule) {
                let known = self.found.iter().any(|f| f.part == found.part && f.path == found.path);
                if !known {
                    self.found.push(found);
                }
            }
        }
    }

    /// All locations of one part, in the order of the rules.
    pub fn of(&self, part: Part) -> impl Iterator<Item = &Found> {
        self.found.iter().filter(move |found| found.part == part)
    }
}

/// Asks the Python on `PATH` for its site-packages. Empty without Python.
fn ask_python() -> Vec<PathBuf> {
    const SCRIPT: &str = "import site, sys\n\
        dirs = list(sys.path) + site.getsitepackages() + [site.getusersitepackages()]\n\
        print('\\n'.join(dict.fromkeys(d for d in dirs if d.endswith('packages'))))";
    for python in ["python3", "python"] {
        let output = Command::new(python).args(["-c", SCRIPT]).stdin(Stdio::null()).output();
        if let Ok(output) = output
            && output.status.success()
        {
            let text = String::from_utf8_lossy(&output.stdout);
            return text.lines().map(PathBuf::from).filter(|dir| dir.is_dir()).collect();
        }
    }
    Vec::new()
}
