//! Assembles PTX to machine code with ptxas, and disassembles machine code.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;

use crate::allowed;
use crate::cache::KeyBuilder;
use crate::compile::arch_number;
use crate::cubin;
use crate::diagnostic::{self, Diagnostic};
use crate::locate::{Found, NotFound, Part, Toolchain};
use crate::program::{self, ProgramError};
use crate::resources::{self, Resources};
use crate::version::{Version, ptx_version, ptxas_needed};

/// The file name that ptxas sees and prints in its messages.
const MODULE: &str = "module.ptx";
/// File name of the machine code in its temporary directory.
const CUBIN: &str = "module.cubin";

/// Machine code, and the resources of its kernels.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The cubin.
    pub cubin: Vec<u8>,
    /// Resources of every kernel of the module, in the order of ptxas.
    pub resources: Vec<Resources>,
    /// The unmodified log of `ptxas -v`.
    pub log: String,
    /// The parsed warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// The version of ptxas.
    pub version: Version,
    /// Whether it came from the build cache.
    pub cached: bool,
}

/// Why assembling or disassembling failed.
#[derive(Debug)]
pub enum AssembleError {
    /// The program is missing.
    NotFound(NotFound),
    /// Every ptxas found is too old for the module.
    TooOld {
        /// The module's PTX version.
        ptx: (u32, u32),
        /// The release of CUDA that it needs.
        needed: Version,
        /// The newest ptxas found.
        newest: Version,
    },
    /// ptxas rejects the module.
    Rejected {
        /// Its messages.
        diagnostics: Vec<Diagnostic>,
        /// Its unmodified log.
        log: String,
    },
    /// An invalid option.
    Options(String),
    /// A program could not be run.
    Program(ProgramError),
    /// A temporary file could not be read or written.
    Io(io::Error),
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(error) => error.fmt(f),
            Self::TooOld { ptx: (major, minor), needed, newest } => write!(
                f,
                "the module is PTX {major}.{minor}, which needs ptxas {needed} or newer; the newest found is {newest}"
            ),
            Self::Rejected { log, .. } => write!(f, "ptxas rejects the module:\n{}", log.trim_end()),
            Self::Options(text) => f.write_str(text),
            Self::Program(error) => error.fmt(f),
            Self::Io(error) => write!(f, "temporary file: {error}"),
        }
    }
}

impl std::error::Error for AssembleError {}

impl From<io::Error> for AssembleError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Toolchain {
    /// The ptxas for a module: the chosen one, or the oldest that is new enough.
    pub fn ptxas_for(&self, ptx: &str) -> Result<&Found, AssembleError> {
        let stated = ptx_version(ptx);
        let needed = stated.map(ptxas_needed);
        let enough = |found: &&Found| needed.is_none_or(|needed| found.version.release() >= needed);
        if let Some(found) =
            self.ptxas.as_ref().filter(enough).or_else(|| self.assemblers.iter().find(enough))
        {
            return Ok(found);
        }
        match (stated, needed, self.assemblers.last()) {
            (Some(ptx), Some(needed), Some(newest)) => {
                Err(AssembleError::TooOld { ptx, needed, newest: newest.version })
            }
            _ => Err(AssembleError::NotFound(self.not_found(vec![Part::Ptxas]))),
        }
    }

    /// Assembles a module. `flags` must be allowed options of [`PTXAS_OPTIONS`](crate::PTXAS_OPTIONS).
    pub fn ptxas(&self, ptx: &str, arch: &str, flags: &[&str]) -> Result<Assembled, AssembleError> {
        let ptxas = self.ptxas_for(ptx)?;
        let number = arch_number(arch).ok_or_else(|| {
            AssembleError::Options(format!("expected an architecture such as sm_89, found `{arch}`"))
        })?;
        let arch = format!("-arch=sm_{number}");
        let flags =
            allowed::ptxas_options(flags).map_err(|refused| AssembleError::Options(refused.to_string()))?;
        let key = self.cache.as_ref().map(|cache| {
            let mut key = KeyBuilder::new("ptxas");
            key.add(ptxas.version.to_string().as_bytes()).add_program(&ptxas.path);
            key.add(arch.as_bytes()).add(ptx.as_bytes());
            for flag in &flags {
                key.add(flag.as_bytes());
            }
            (cache, key.finish())
        });
        if let Some((cache, key)) = &key
            && let Some([cubin, log]) = cache.get(key).as_deref()
            && let Ok(log) = String::from_utf8(log.clone())
        {
            return Ok(assembled(cubin.clone(), log, ptxas.version, true));
        }
        let dir = tempfile::tempdir()?;
        fs::write(dir.path().join(MODULE), ptx)?;
        // ptxas runs inside the directory, so that cubin and messages contain no path of this machine.
        let args = ["-v", &arch, "-o", CUBIN].into_iter().chain(flags.iter().map(String::as_str));
        let args: Vec<&OsStr> = args.chain([MODULE]).map(OsStr::new).collect();
        let output =
            program::run(&ptxas.path, &args, dir.path(), self.limits).map_err(AssembleError::Program)?;
        let mut log = output.stderr;
        log.push_str(&String::from_utf8_lossy(&output.stdout));
        if !output.success {
            return Err(AssembleError::Rejected { diagnostics: diagnostic::from_ptxas(&log), log });
        }
        let cubin = fs::read(dir.path().join(CUBIN))?;
        if let Some((cache, key)) = key {
            cache.put(&key, &[&cubin, log.as_bytes()]);
        }
        Ok(assembled(cubin, log, ptxas.version, false))
    }

    /// Disassembles machine code with nvdisasm, or with cuobjdump if nvdisasm is missing.
    pub fn sass(&self, cubin: &[u8]) -> Result<String, AssembleError> {
        self.disassembled(cubin, &["-c"])
    }

    /// Disassembles machine code with the encoding of every instruction, and with PTX line numbers if ptxas was run with
    /// `-lineinfo` and nvdisasm is available.
    pub fn encoded_sass(&self, cubin: &[u8]) -> Result<String, AssembleError> {
        self.disassembled(cubin, &["-c", "-hex", "-gp"])
    }

    /// `flags` are for nvdisasm; cuobjdump always prints encodings and never prints lines.
    fn disassembled(&self, cubin: &[u8], flags: &[&str]) -> Result<String, AssembleError> {
        let (found, flags) = match (&self.nvdisasm, &self.cuobjdump) {
            (Some(nvdisasm), _) => (nvdisasm, flags),
            (None, Some(cuobjdump)) => (cuobjdump, ["-sass"].as_slice()),
            (None, None) => return Err(AssembleError::NotFound(self.not_found(vec![Part::Nvdisasm]))),
        };
        let key = self.cache.as_ref().map(|cache| {
            let mut key = KeyBuilder::new("sass");
            key.add(found.version.to_string().as_bytes()).add_program(&found.path);
            for flag in flags {
                key.add(flag.as_bytes());
            }
            (cache, key.add(cubin).finish())
        });
        if let Some((cache, key)) = &key
            && let Some([text]) = cache.get(key).as_deref()
            && let Ok(text) = String::from_utf8(text.clone())
        {
            return Ok(text);
        }
        let dir = tempfile::tempdir()?;
        fs::write(dir.path().join(CUBIN), cubin)?;
        let args: Vec<&OsStr> = flags.iter().copied().chain([CUBIN]).map(OsStr::new).collect();
        let output =
            program::run(&found.path, &args, dir.path(), self.limits).map_err(AssembleError::Program)?;
        if !output.success {
            return Err(AssembleError::Program(ProgramError::new(&found.path, output.stderr.trim())));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Some((cache, key)) = key {
            cache.put(&key, &[text.as_bytes()]);
        }
        Ok(text)
    }
}

fn assembled(cubin: Vec<u8>, log: String, version: Version, cached: bool) -> Assembled {
    let (mut resources, diagnostics) = (resources::parse(&log), diagnostic::from_ptxas(&log));
    for kernel in resources.iter_mut().filter(|kernel| kernel.constant.is_empty()) {
        kernel.constant = cubin::constant_banks(&cubin, &kernel.kernel);
    }
    Assembled { cubin, resources, log, diagnostics, version, cached }
}
