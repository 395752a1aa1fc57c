//! Finds nvcc, completes its installed tree, and adds the arguments with which programs run on the software GPU.

mod arguments;
mod wrapper;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::install;
use crate::locate::{Environment, NotFound, Rule};
use crate::pins::Purpose;
use crate::program;
use crate::version::Version;
pub use arguments::Plan;

/// The command that installs nvcc.
const INSTALL: &str = "warpproof toolchain install --nvcc";
/// nvcc's tree below an installed set, and the runtime and the C++ library of CUDA 12 next to it.
const TREE: &str = "nvidia/cu13";
const RUNTIME_12: &str = "nvidia/cuda_runtime";
const CCCL_12: &str = "nvidia/cuda_cccl";

/// Which CUDA runtime a program is compiled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    /// That of nvcc's own release.
    #[default]
    Own,
    /// CUDA 12, with the headers and the library of its last release.
    Twelve,
}

/// An nvcc with the parts that it starts.
#[derive(Clone, Debug)]
pub struct Nvcc {
    /// The program.
    pub program: PathBuf,
    /// The rule that found it.
    pub rule: Rule,
    /// The toolkit's directory.
    root: PathBuf,
    /// The directory of the runtime's library if nvcc is an installed set, in which no loader looks.
    libraries: Option<PathBuf>,
    /// The set, if it has the runtime of CUDA 12.
    twelve: Option<PathBuf>,
}

impl Nvcc {
    /// Finds nvcc: `WARPPROOF_TOOLCHAIN`, the cache, `CUDA_HOME`, `CUDA_PATH`, `PATH`, the default directory.
    pub fn find(environment: &Environment) -> Result<Self, NotFound> {
        if let Some(dir) = &environment.toolchain {
            // A silent fallback would use another compiler than the user requested.
            return Self::below(dir, Rule::Variable).ok_or_else(|| NotFound {
                missing: Vec::new(),
                reason: format!(
                    "expected nvcc and cicc in WARPPROOF_TOOLCHAIN, found neither in {}",
                    dir.display()
                ),
                mend: None,
            });
        }
        let cache = environment.cache.as_deref();
        let sets = cache.map(|cache| install::set_directories(cache, Purpose::Programs)).unwrap_or_default();
        let on_path = environment.path.iter().filter_map(|dir| {
            let real = fs::canonicalize(dir.join("nvcc")).ok()?;
            Some(real.parent()?.parent()?.to_owned())
        });
        let places = sets
            .into_iter()
            .rev()
            .map(|dir| (dir, Rule::Cache))
            .chain(environment.cuda_home.iter().map(|dir| (dir.clone(), Rule::CudaHome)))
            .chain(environment.cuda_path.iter().map(|dir| (dir.clone(), Rule::CudaPath)))
            .chain(on_path.map(|dir| (dir, Rule::Path)))
            .chain(environment.default_places.iter().map(|dir| (dir.clone(), Rule::Default)));
        places.into_iter().find_map(|(dir, rule)| Self::below(&dir, rule)).ok_or_else(|| NotFound {
            missing: Vec::new(),
            reason: "nvcc not found".to_owned(),
            mend: Some(INSTALL.to_owned()),
        })
    }

    fn below(dir: &Path, rule: Rule) -> Option<Self> {
        let wheels = dir.join(TREE);
        let root = [wheels.as_path(), dir].into_iter().find(|root| is_tree(root))?.to_owned();
        let installed = root == wheels;
        let twelve = dir.join(RUNTIME_12).join("lib/libcudart.so").exists();
        Some(Self {
            program: root.join("bin/nvcc"),
            rule,
            libraries: installed.then(|| root.join("lib")),
            twelve: (installed && twelve).then(|| dir.to_owned()),
            root,
        })
    }

    /// Its version, if it runs.
    pub fn version(&self) -> Option<Version> {
        program::banner(&self.program).as_deref().and_then(Version::in_banner)
    }

    /// The arguments of nvcc for the arguments of a user; `variables` are the flags that nvcc reads from its environment.
    pub fn plan(&self, user: &[OsString], variables: &[String], runtime: Runtime) -> Result<Plan, NotFound> {
        let mut plan = Plan::new(user, variables);
        let libraries = match runtime {
            Runtime::Own => self.libraries.clone(),
            Runtime::Twelve => {
                let twelve = self.twelve.as_ref().ok_or_else(|| NotFound {
                    missing: Vec::new(),
                    reason: format!("the runtime of CUDA 12 was not found with {}", self.program.display()),
                    mend: Some(INSTALL.to_owned()),
                })?;
                // Those of nvcc's own release do not accept the headers of CUDA 12.
                plan.search("-isystem", &twelve.join(CCCL_12).join("include"));
                let runtime = twelve.join(RUNTIME_12);
                plan.search("-I", &runtime.join("include"));
                plan.search("-L", &runtime.join("lib"));
                Some(runtime.join("lib"))
            }
        };
        if let Some(libraries) = libraries {
            plan.load_from(&libraries);
        }
        Ok(plan)
    }

    /// Links the driver's library where CMake looks for it, if nvcc is an installed set: the wheels have none.
    pub fn offer_driver(&self, library: &Path) -> io::Result<()> {
        let Some(libraries) = &self.libraries else { return Ok(()) };
        let place = libraries.join("stubs/libcuda.so");
        if fs::read_link(&place).is_ok_and(|known| known == library) {
            return Ok(());
        }
        fs::create_dir_all(libraries.join("stubs"))?;
        // One of an earlier Warpproof.
        let _old = fs::remove_file(&place);
        link(library, &place)
    }

    /// Makes a program of the name `nvcc` that starts `command`, for build systems that need a path. It is in a directory
    /// that looks like a toolkit's.
    pub fn wrapper(&self, cache: &Path, command: &Path, runtime: Runtime) -> io::Result<PathBuf> {
        wrapper::write(&self.root, cache, command, runtime)
    }
}

/// Whether a directory has nvcc and its device compiler. Our own wrapper, which starts this program, does not count.
fn is_tree(root: &Path) -> bool {
    let program = |name: &str| root.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)).is_file();
    program("bin/nvcc") && program("nvvm/bin/cicc") && !root.join(wrapper::MARK).exists()
}

/// Adds what the wheels lack: execute permissions, and the names under which linkers look for libraries.
pub(crate) fn complete(set: &Path) -> io::Result<()> {
    let tree = set.join(TREE);
    for dir in ["bin", "nvvm/bin"] {
        for entry in fs::read_dir(tree.join(dir))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                allow_execution(&entry.path())?;
            }
        }
    }
    link(Path::new("lib"), &tree.join("lib64"))?;
    for (libraries, major) in [(tree.join("lib"), 13), (set.join(RUNTIME_12).join("lib"), 12)] {
        link(Path::new(&format!("libcudart.so.{major}")), &libraries.join("libcudart.so"))?;
    }
    Ok(())
}

#[cfg(unix)]
fn allow_execution(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(unix)]
fn link(target: &Path, place: &Path) -> io::Result<()> {
    match std::os::unix::fs::symlink(target, place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn allow_execution(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "NVIDIA publishes nvcc wheels for Linux only"))
}

/// Whether the nvcc of a set runs, and has every file that it needs.
pub(crate) fn probe(set: &Path, version: Version) -> Result<(), String> {
    let nvcc = Nvcc::below(set, Rule::Cache).ok_or("nvcc or cicc is missing")?;
    let found = nvcc.version().ok_or("nvcc does not run")?;
    if !found.same_release(version) {
        return Err(format!("nvcc has version {found}, expected {version}"));
    }
    let tree = set.join(TREE);
    let files = [
        "nvvm/libdevice/libdevice.10.bc",
        "include/crt/host_config.h",
        "include/cuda_runtime.h",
        "include/cccl/cub/cub.cuh",
        "include/cuda_profiler_api.h",
        "include/nvtx3/nvToolsExt.h",
        "lib/libcudart.so",
        "lib/libcudadevrt.a",
    ];
    if let Some(absent) = files.into_iter().find(|file| !tree.join(file).exists()) {
        return Err(format!("{absent} is missing"));
    }
    if nvcc.twelve.is_none() || !set.join(CCCL_12).join("include/cub/cub.cuh").exists() {
        return Err("the runtime of CUDA 12 is missing".to_owned());
    }
    for program in ["cudafe++", "ptxas", "fatbinary", "nvlink"] {
        if program::banner(&tree.join("bin").join(program)).is_none() {
            return Err(format!("{program} does not run"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::pins::NVCC;

    fn file(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    fn tree(root: &Path) {
        for name in ["bin/nvcc", "nvvm/bin/cicc"] {
            file(&root.join(name));
        }
    }

    #[test]
    fn an_installed_set_comes_before_a_toolkit_and_after_the_variable() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, home) = (dir.path().join("cache"), dir.path().join("toolkit"));
        let mut environment = Environment {
            cache: Some(cache.clone()),
            cuda_home: Some(home.clone()),
            ..Environment::default()
        };
        let error = Nvcc::find(&environment).unwrap_err();
        assert_eq!(error.to_string(), "nvcc not found; run `warpproof toolchain install --nvcc`");
        tree(&home);
        assert_eq!(Nvcc::find(&environment).unwrap().rule, Rule::CudaHome);
        let set = cache.join("toolchain").join(NVCC.directory());
        tree(&set.join(TREE));
        assert_eq!(
            Nvcc::find(&environment).unwrap().rule,
            Rule::CudaHome,
            "without a manifest it is not a set"
        );
        file(&set.join("warpproof-set.json"));
        assert_eq!(Nvcc::find(&environment).unwrap().program, set.join(TREE).join("bin/nvcc"));
        environment.toolchain = Some(dir.path().to_owned());
        assert!(Nvcc::find(&environment).is_err());
        environment.toolchain = Some(home);
        assert_eq!(Nvcc::find(&environment).unwrap().rule, Rule::Variable);
    }

    #[test]
    fn an_nvcc_without_its_device_compiler_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        file(&dir.path().join("bin/nvcc"));
        let environment = Environment { path: vec![dir.path().join("bin")], ..Environment::default() };
        assert!(Nvcc::find(&environment).is_err());
        file(&dir.path().join("nvvm/bin/cicc"));
        assert_eq!(Nvcc::find(&environment).unwrap().rule, Rule::Path);
    }

    #[test]
    fn a_set_is_completed_twice_without_error() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join(TREE);
        tree(&root);
        file(&root.join("lib/libcudart.so.13"));
        file(&dir.path().join(RUNTIME_12).join("lib/libcudart.so.12"));
        for _ in 0..2 {
            complete(dir.path()).unwrap();
        }
        assert!(root.join("lib64/libcudart.so").exists());
        let mode = fs::metadata(root.join("nvvm/bin/cicc")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111);
        assert!(Nvcc::below(dir.path(), Rule::Cache).unwrap().twelve.is_some());
    }

    #[test]
    fn the_library_of_the_driver_is_linked_into_installed_sets_only() {
        let dir = tempfile::tempdir().unwrap();
        tree(&dir.path().join(TREE));
        let nvcc = Nvcc::below(dir.path(), Rule::Cache).unwrap();
        for name in ["one", "one", "two"] {
            nvcc.offer_driver(Path::new(name)).unwrap();
            let place = dir.path().join(TREE).join("lib/stubs/libcuda.so");
            assert_eq!(fs::read_link(place).unwrap(), Path::new(name));
        }
        let home = dir.path().join("toolkit");
        tree(&home);
        Nvcc::below(&home, Rule::CudaHome).unwrap().offer_driver(Path::new("one")).unwrap();
        assert!(!home.join("lib").exists());
    }

    #[test]
    fn our_own_wrapper_is_never_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("toolkit");
        tree(&root);
        let nvcc = Nvcc::below(&root, Rule::CudaHome).unwrap();
        let cache = dir.path().join("a cache");
        let path = nvcc.wrapper(&cache, Path::new("/opt/it's here/warpproof"), Runtime::Twelve).unwrap();
        assert_eq!(
            nvcc.wrapper(&cache, Path::new("/opt/it's here/warpproof"), Runtime::Twelve).unwrap(),
            path
        );
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(r"'/opt/it'\''s here/warpproof' nvcc --runtime 12"), "{text}");
        assert!(path.ends_with("bin/nvcc"));
        let above = path.ancestors().nth(2).unwrap();
        assert!(above.join("nvvm/bin/cicc").is_file());
        assert!(Nvcc::below(above, Rule::Path).is_none());
        let other = nvcc.wrapper(&cache, Path::new("/opt/warpproof"), Runtime::Own).unwrap();
        assert_ne!(other, path);
    }
}
