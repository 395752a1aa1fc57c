//! Installs the pinned wheels in Warpproof's cache directory, lists and removes them.
//!
//! A set is created in a staging directory next to its final place, tested, and renamed: an interrupted install leaves no
//! incomplete set. A lock allows one process at a time to install or remove; the holder of the lock removes staging directories
//! left by processes that died.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::locate::{Environment, Options, Part, Survey};
use crate::nvcc;
use crate::nvrtc::Nvrtc;
use crate::pins::{CudaSet, Purpose};
use crate::version::Version;

/// The manifest, written last; a directory without it is not a set.
const MANIFEST: &str = "warpproof-set.json";
const STAGING: &str = ".staging-";
/// A directory of the cache in which the user may put wheels, for machines without a network.
const WHEELS: &str = "wheels";

/// Progress of an install. The total is an estimate; the last report is complete.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes downloaded and unpacked so far.
    pub done: u64,
    /// Estimated total.
    pub total: u64,
}

/// An installed set.
#[derive(Clone, Debug, Serialize)]
pub struct Installed {
    /// Its use.
    #[serde(skip)]
    pub purpose: Purpose,
    /// The release of CUDA.
    pub version: Version,
    /// Its directory.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Package names and versions.
    pub wheels: Vec<(String, String)>,
}

/// Why a set could not be installed or removed.
#[derive(Debug)]
pub enum InstallError {
    /// NVIDIA publishes no wheels for this system.
    System(String),
    /// No cache directory is known: neither `WARPPROOF_CACHE` nor a home directory.
    NoCache,
    /// Neither pip nor uv is available.
    NoInstaller,
    /// The package index cannot be reached.
    Offline {
        /// The error line.
        cause: String,
        /// Directory of the set, so that the user can copy it there.
        place: PathBuf,
    },
    /// The hash of a wheel differs from the pinned one.
    WrongHash(String),
    /// pip or uv failed for another reason; the end of its output.
    Failed(String),
    /// The installed wheels do not work.
    Broken(String),
    /// A file or directory could not be accessed.
    Io(PathBuf, io::Error),
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(system) => write!(f, "NVIDIA publishes no compiler wheels for {system}"),
            Self::NoCache => f.write_str("no cache directory found; set WARPPROOF_CACHE or HOME"),
            Self::NoInstaller => f.write_str("neither pip nor uv was found on PATH"),
            Self::Offline { cause, .. } => write!(f, "cannot reach the package index: {cause}"),
            Self::WrongHash(text) => {
                write!(f, "the hash of a downloaded wheel does not match; nothing was installed: {text}")
            }
            Self::Failed(text) => write!(f, "the installer failed: {text}"),
            Self::Broken(text) => write!(f, "the installed compiler does not work: {text}"),
            Self::Io(path, cause) => write!(f, "{}: {cause}", path.display()),
        }
    }
}

impl std::error::Error for InstallError {}

fn at(path: &Path) -> impl FnOnce(io::Error) -> InstallError + '_ {
    move |cause| InstallError::Io(path.to_owned(), cause)
}

fn sets_below(cache: &Path) -> PathBuf {
    cache.join("toolchain")
}

/// The directories of the installed sets for a purpose, oldest release first.
pub(crate) fn set_directories(cache: &Path, purpose: Purpose) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(sets_below(cache)) else { return Vec::new() };
    let mut sets: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|dir| is_set(dir, purpose)).collect();
    sets.sort();
    sets
}

fn is_set(dir: &Path, purpose: Purpose) -> bool {
    let name = dir.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.starts_with(purpose.prefix())) && dir.join(MANIFEST).is_file()
}

/// The installed sets.
pub fn installed(environment: &Environment) -> Vec<Installed> {
    let Some(cache) = &environment.cache else { return Vec::new() };
    let sets = Purpose::ALL.into_iter().flat_map(|purpose| {
        set_directories(cache, purpose).into_iter().map(move |directory| (purpose, directory))
    });
    sets.filter_map(|(purpose, dir)| {
        let version = Version::parse(dir.file_name()?.to_str()?.strip_prefix(purpose.prefix())?)?;
        let manifest = fs::read(dir.join(MANIFEST)).ok()?;
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
        let wheels = manifest.get("wheels")?.as_object()?;
        let wheels =
            wheels.iter().map(|(n, v)| (n.clone(), v.as_str().unwrap_or_default().to_owned())).collect();
        Some(Installed { purpose, version, bytes: size_of(&dir), path: dir.display().to_string(), wheels })
    })
    .collect()
}

/// Removes the sets of a CUDA major version for a purpose. `false` if none is installed.
pub fn remove(environment: &Environment, purpose: Purpose, major: u32) -> Result<bool, InstallError> {
    let cache = environment.cache.as_ref().ok_or(InstallError::NoCache)?;
    let sets = sets_below(cache);
    if !sets.is_dir() {
        return Ok(false);
    }
    let _lock = lock(&sets)?;
    remove_stale(&sets);
    let prefix = format!("{}{major}.", purpose.prefix());
    let mut removed = false;
    for dir in set_directories(cache, purpose) {
        let Some(name) = dir.file_name().and_then(OsStr::to_str) else { continue };
        if !name.starts_with(&prefix) {
            continue;
        }
        // Renamed first, so that no process finds a partially removed set.
        let doomed = sets.join(format!("{STAGING}removed-{}-{name}", std::process::id()));
        fs::rename(&dir, &doomed).map_err(at(&dir))?;
        fs::remove_dir_all(&doomed).map_err(at(&doomed))?;
        removed = true;
    }
    Ok(removed)
}

/// Installs a pinned set unless it is installed. `false` if it was already installed.
pub fn install(
    environment: &Environment,
    set: &CudaSet,
    progress: &mut dyn FnMut(Progress),
) -> Result<bool, InstallError> {
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        let system = format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH);
        return Err(InstallError::System(system));
    }
    let cache = environment.cache.as_ref().ok_or(InstallError::NoCache)?;
    let sets = sets_below(cache);
    fs::create_dir_all(&sets).map_err(at(&sets))?;
    let _lock = lock(&sets)?;
    let place = sets.join(set.directory());
    if is_set(&place, set.purpose) && probe(&place, set).is_ok() {
        return Ok(false);
    }
    remove_stale(&sets);
    let staging = tempfile::Builder::new().prefix(STAGING).tempdir_in(&sets).map_err(at(&sets))?;
    let requirements = staging.path().join("requirements.txt");
    fs::write(&requirements, set.requirements()).map_err(at(&requirements))?;
    let target = staging.path().join("set");
    let scratch = staging.path().join("scratch");
    fs::create_dir(&scratch).map_err(at(&scratch))?;

    let installer = find_installer(&environment.path).ok_or(InstallError::NoInstaller)?;
    let wheels = cache.join(WHEELS);
    let local = holds_all(&wheels, set).then_some(wheels.as_path());
    let child = start(&installer, &requirements, &target, &scratch, local)?;
    watch(child, set, &[&target, &scratch], &place, progress)?;
    if set.purpose == Purpose::Programs {
        nvcc::complete(&target).map_err(at(&target))?;
    }
    probe(&target, set)?;
    write_manifest(&target, set)?;
    if place.exists() {
        // A set that no longer works is moved into the staging directory and removed with it.
        fs::rename(&place, staging.path().join("old")).map_err(at(&place))?;
    }
    fs::rename(&target, &place).map_err(at(&place))?;
    progress(Progress { done: set.bytes, total: set.bytes });
    Ok(true)
}

fn write_manifest(target: &Path, set: &CudaSet) -> Result<(), InstallError> {
    let wheels: serde_json::Map<String, serde_json::Value> =
        set.wheels.iter().map(|w| (w.name.to_owned(), w.version.into())).collect();
    let manifest = serde_json::json!({
        "schema": "warpproof.toolchain-set/1",
        "cuda": set.version.to_string(),
        "wheels": wheels,
    });
    let path = target.join(MANIFEST);
    fs::write(&path, format!("{manifest:#}\n")).map_err(at(&path))
}

/// Whether a directory has every wheel of a set. pip verifies their hashes.
fn holds_all(wheels: &Path, set: &CudaSet) -> bool {
    let Ok(entries) = fs::read_dir(wheels) else { return false };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    set.wheels.iter().all(|wheel| {
        let prefix = format!("{}-{}-", wheel.name.replace('-', "_"), wheel.version);
        names.iter().any(|name| name.strip_suffix(".whl").is_some_and(|name| name.starts_with(&prefix)))
    })
}

/// Runs every part once, so that an installed set is known to work.
fn probe(root: &Path, set: &CudaSet) -> Result<(), InstallError> {
    if set.purpose == Purpose::Programs {
        return nvcc::probe(root, set.version).map_err(InstallError::Broken);
    }
    let options = Options { explicit: Some(root.to_owned()), ..Options::default() };
    let survey = Survey::complete(&options);
    for part in Part::ALL {
        let Some(found) = survey.of(part).next() else {
            return Err(InstallError::Broken(format!("{} is missing or does not run", part.name())));
        };
        let own = !matches!(part, Part::Nvdisasm | Part::Cuobjdump);
        if own && !found.version.same_release(set.version) {
            let text = format!("{} has version {}, expected {}", part.name(), found.version, set.version);
            return Err(InstallError::Broken(text));
        }
        if part == Part::Nvrtc {
            Nvrtc::open(&found.path).map_err(InstallError::Broken)?;
        }
    }
    Ok(())
}

fn lock(sets: &Path) -> Result<File, InstallError> {
    let path = sets.join(".lock");
    let file = File::options().create(true).append(true).open(&path).map_err(at(&path))?;
    file.lock().map_err(at(&path))?;
    Ok(file)
}

fn remove_stale(sets: &Path) {
    for entry in fs::read_dir(sets).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(STAGING) {
            // Nothing depends on it; a directory that cannot be removed now is retried next time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The program that installs wheels, with its first arguments.
struct Installer {
    program: PathBuf,
    before: &'static [&'static str],
    uv: bool,
}

/// pip as a Python module, pip as a program, or uv: the first one that runs.
fn find_installer(path: &[PathBuf]) -> Option<Installer> {
    const CANDIDATES: [(&str, &[&str], bool); 5] = [
        ("python3", &["-m", "pip"], false),
        ("python", &["-m", "pip"], false),
        ("pip3", &[], false),
        ("pip", &[], false),
        ("uv", &["pip"], true),
    ];
    for (name, before, uv) in CANDIDATES {
        for dir in path {
            let program = dir.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
            if !program.is_file() {
                continue;
            }
            // A Python without pip must not hide uv.
            let version = Command::new(&program)
                .args(if uv { &[] } else { before })
                .arg("--version")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if version.is_ok_and(|status| status.success()) {
                return Some(Installer { program, before, uv });
            }
        }
    }
    None
}

fn start(
    installer: &Installer,
    requirements: &Path,
    target: &Path,
    scratch: &Path,
    local: Option<&Path>,
) -> Result<Child, InstallError> {
    let mut args: Vec<OsString> = installer.before.iter().map(OsString::from).collect();
    args.extend(["install", "--require-hashes", "--no-deps", "--only-binary", ":all:"].map(OsString::from));
    if installer.uv {
        args.extend(["--no-progress"].map(OsString::from));
    } else {
        // Two retries: an offline user should not wait for the default of five with growing pauses.
        let quiet = ["--no-input", "--no-compile", "--progress-bar", "off", "--retries", "2"];
        args.extend(quiet.map(OsString::from));
        args.extend(["--disable-pip-version-check", "--root-user-action", "ignore"].map(OsString::from));
    }
    if let Some(wheels) = local {
        args.extend([OsString::from("--no-index"), OsString::from("--find-links"), wheels.into()]);
    }
    args.extend([OsString::from("--target"), target.into(), OsString::from("-r"), requirements.into()]);
    Command::new(&installer.program)
        .args(&args)
        // The user's setting `user = true` conflicts with --target.
        .env("PIP_USER", "0")
        .env("TMPDIR", scratch)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(at(&installer.program))
}

/// Waits for the installer, reports the bytes downloaded so far, and evaluates its exit status.
fn watch(
    mut child: Child,
    set: &CudaSet,
    arriving: &[&Path],
    place: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), InstallError> {
    let stdout = child.stdout.take().map(|pipe| thread::spawn(move || read_end(pipe)));
    let stderr = child.stderr.take().map(|pipe| thread::spawn(move || read_end(pipe)));
    let mut done = 0;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(at(place))? {
            break status;
        }
        let bytes: u64 = arriving.iter().map(|dir| size_of(dir)).sum();
        // The installer deletes a wheel after unpacking it; progress must not decrease then.
        done = bytes.clamp(done, set.bytes.max(done));
        progress(Progress { done: done.min(set.bytes), total: set.bytes });
        thread::sleep(Duration::from_millis(150));
    };
    let text =
        |thread: Option<thread::JoinHandle<String>>| thread.and_then(|t| t.join().ok()).unwrap_or_default();
    let printed = format!("{}\n{}", text(stdout), text(stderr));
    if status.success() { Ok(()) } else { Err(classify(&printed, place)) }
}

/// The last 64 KB of a program's output.
fn read_end(mut pipe: impl Read) -> String {
    const KEEP: usize = 64 * 1024;
    let mut kept = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(n @ 1..) = pipe.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..n]);
        if kept.len() > 2 * KEEP {
            kept.drain(..kept.len() - KEEP);
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Derives a one-line error from the output of pip or uv.
fn classify(printed: &str, place: &Path) -> InstallError {
    const UNREACHABLE: [&str; 12] = [
        "Failed to establish a new connection",
        "NewConnectionError",
        "name resolution",
        "Name or service not known",
        "nodename nor servname",
        "dns error",
        "Network is unreachable",
        "No route to host",
        "Connection refused",
        "ConnectTimeoutError",
        "Cannot connect to proxy",
        "error sending request",
    ];
    let line = |needles: &[&str]| {
        printed.lines().find(|line| needles.iter().any(|n| line.contains(n))).map(|l| l.trim().to_owned())
    };
    if let Some(hash) = line(&["DO NOT MATCH THE HASHES", "Hash mismatch"]) {
        return InstallError::WrongHash(hash);
    }
    let unreachable = UNREACHABLE.iter().find_map(|needle| {
        // pip prints the whole exception; the relevant part starts here and ends with the quotation.
        let rest = &printed[printed.find(needle)?..];
        Some(rest.split(['\'', '"', '\n', ')']).next().unwrap_or(rest).trim().to_owned())
    });
    if let Some(cause) = unreachable {
        return InstallError::Offline { cause, place: place.to_owned() };
    }
    let errors: Vec<&str> =
        printed.lines().map(str::trim).filter(|line| line.to_lowercase().starts_with("error")).collect();
    let text = if errors.is_empty() {
        printed
            .lines()
            .map(str::trim)
            .rfind(|line| !line.is_empty())
            .unwrap_or("it printed no message")
            .to_owned()
    } else {
        errors.join("; ")
    };
    InstallError::Failed(text)
}

/// Bytes in a directory. Files that disappear while it is read count as zero.
fn size_of(dir: &Path) -> u64 {
    let mut total: u64 = 0;
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(data) if data.is_dir() => pending.push(entry.path()),
                Ok(data) => total = total.saturating_add(data.len()),
                Err(_) => {}
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pins::{NVCC, SETS};

    #[test]
    fn says_offline_wrong_hash_and_other_failures_apart() {
        let place = Path::new("cache/toolchain/cuda-12.9.86");
        let offline = "WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError(\
             '<pip._vendor.urllib3.connection.HTTPSConnection object at 0x1>: Failed to establish a new connection: \
             [Errno -3] Temporary failure in name resolution')': /simple/x/\nERROR: No matching distribution found";
        let InstallError::Offline { cause, .. } = classify(offline, place) else { panic!("offline") };
        assert_eq!(
            cause,
            "Failed to establish a new connection: [Errno -3] Temporary failure in name resolution"
        );
        let hash = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.";
        assert!(matches!(classify(hash, place), InstallError::WrongHash(_)));
        let InstallError::Failed(text) = classify("Collecting x\nERROR: disk full\n", place) else {
            panic!("failed")
        };
        assert_eq!(text, "ERROR: disk full");
    }

    #[test]
    fn a_directory_without_a_manifest_is_no_set() {
        let cache = tempfile::tempdir().unwrap();
        fs::create_dir_all(cache.path().join("toolchain/cuda-12.9.86")).unwrap();
        assert!(set_directories(cache.path(), Purpose::Kernels).is_empty());
        let environment = Environment { cache: Some(cache.path().to_owned()), ..Environment::default() };
        assert!(!remove(&environment, Purpose::Kernels, 12).unwrap());
        let manifest = r#"{"wheels": {"a": "1"}}"#;
        fs::write(cache.path().join("toolchain/cuda-12.9.86").join(MANIFEST), manifest).unwrap();
        let sets = installed(&environment);
        assert_eq!(sets.len(), 1);
        assert_eq!(sets[0].wheels, [("a".to_owned(), "1".to_owned())]);
        assert!(remove(&environment, Purpose::Kernels, 12).unwrap());
        assert!(installed(&environment).is_empty());
    }

    #[test]
    fn sets_for_programs_are_listed_but_not_searched_for_kernels() {
        let cache = tempfile::tempdir().unwrap();
        let place = cache.path().join("toolchain/nvcc-13.4.92");
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(MANIFEST), r#"{"wheels": {}}"#).unwrap();
        assert!(set_directories(cache.path(), Purpose::Kernels).is_empty());
        let environment = Environment { cache: Some(cache.path().to_owned()), ..Environment::default() };
        let sets = installed(&environment);
        assert_eq!(sets.len(), 1);
        assert_eq!((sets[0].purpose, sets[0].version), (Purpose::Programs, NVCC.version));
        assert!(!remove(&environment, Purpose::Kernels, 13).unwrap());
        assert!(remove(&environment, Purpose::Programs, 13).unwrap());
        assert!(!place.exists());
    }

    #[test]
    fn wheels_in_the_cache_are_used_when_all_are_there() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!holds_all(&dir.path().join("absent"), &NVCC));
        for wheel in NVCC.wheels {
            assert!(!holds_all(dir.path(), &NVCC));
            let name = format!("{}-{}-py3-none-any.whl", wheel.name.replace('-', "_"), wheel.version);
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert!(holds_all(dir.path(), &NVCC));
        assert!(!holds_all(dir.path(), &SETS[0]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn without_pip_or_uv_nothing_is_left_behind() {
        let cache = tempfile::tempdir().unwrap();
        let environment = Environment { cache: Some(cache.path().to_owned()), ..Environment::default() };
        let stale = cache.path().join("toolchain").join(format!("{STAGING}dead"));
        fs::create_dir_all(&stale).unwrap();
        let error = install(&environment, &SETS[0], &mut |_| {}).unwrap_err();
        assert!(matches!(error, InstallError::NoInstaller), "{error}");
        assert!(!stale.exists());
        let left: Vec<_> = fs::read_dir(cache.path().join("toolchain")).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "only the lock: {left:?}");
    }
}
