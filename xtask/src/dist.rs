//! `cargo xtask dist`: builds the files of a release into `target/dist`.
//!
//! For each architecture a wheel and an archive for `cargo binstall`; for all of them `SHA256SUMS`, an SBOM, a table of sizes and
//! the release notes. The programs need glibc 2.28 or newer, whatever the C library of this machine is: cargo-zigbuild links
//! them with zig, which has the symbols of each release of glibc for each architecture. It is used instead of a linker script of
//! our own because it also adapts the arguments that rustc and the `cc` crate pass to a compiler but zig does not know.
//!
//! The wheel has `libcuda.so.1` as a file. The archive has one program with the library embedded, since `cargo binstall`
//! installs programs only.

mod glibc;
mod licenses;
mod sbom;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::ValueEnum;

use crate::root;
use crate::target;
use crate::wheel::{self, Environment, done};

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Zig, cargo with zig as the linker, and the checks of wheels and SBOMs.
const TOOLS: [&str; 4] = [
    "ziglang==0.17.0",
    "cargo-zigbuild==0.24.0",
    "auditwheel==6.8.2",
    "cyclonedx-python-lib[json-validation]==11.12.0",
];
/// What the script of the book's page needs, except for the wheel.
const SCRIPT_NEEDS: [&str; 2] = ["numpy==2.4.6", "triton==3.9.0"];
/// Files of the repository that each archive has.
const LICENSES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// An architecture with files in a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Arch {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
}

impl Arch {
    /// Its name in Rust, in Linux and in wheels.
    fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    fn triple(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// The platform of the wheel.
    fn platform(self) -> String {
        let (major, minor) = glibc::OLDEST;
        format!("manylinux_{major}_{minor}_{}", self.name())
    }

    fn archive(self) -> String {
        format!("warpproof-{VERSION}-{}-linux.tar.gz", self.name())
    }

    /// Whether this machine runs its programs.
    fn is_host(self) -> bool {
        self.name() == std::env::consts::ARCH
    }
}

/// Builds the release for these architectures, or for all.
pub(crate) fn run(asked: &[Arch], tag: Option<&str>) -> Result<(), String> {
    names_version(tag)?;
    let asked = if asked.is_empty() { Arch::value_variants() } else { asked };
    let asked: BTreeSet<Arch> = asked.iter().copied().collect();
    let (possible, missing): (Vec<Arch>, Vec<Arch>) = asked.into_iter().partition(|arch| has_std(*arch));
    if possible.is_empty() {
        return Err(not_built(&missing));
    }
    let place = target().join("dist");
    let release = Release { place: &place, tools: Environment::new(&place.join("tools"))? };
    let packages: Vec<&str> = TOOLS.into_iter().chain(wheel::BUILDERS).collect();
    release.tools.pip(&packages)?;
    remove_files(&place)?;

    let crates = sbom::crates(&possible)?;
    let mut files = Vec::new();
    let mut sizes = String::from("| file | bytes |\n|---|---|\n");
    for &arch in &possible {
        let built = release.programs(arch, &crates)?;
        for program in &built.all() {
            glibc::check(program, arch.name())?;
            let name = program.strip_prefix(&place).unwrap_or(program).display().to_string();
            let _ = writeln!(sizes, "| {name} | {} |", bytes(program)?);
        }
        let wheel = wheel::build(&release.tools, &built.wheel, &arch.platform(), &place)?;
        wheel::is_small(&wheel)?;
        release.audit(&wheel, arch)?;
        let archive = release.archive(&built.archive, arch)?;
        if arch.is_host() {
            release.try_wheel(&wheel)?;
            release.try_archive(&archive)?;
        } else {
            println!("{}: built, not run: this machine is {}", arch.name(), std::env::consts::ARCH);
        }
        files.extend([wheel, archive]);
    }
    files.push(release.sbom(&crates)?);
    for file in &files {
        let name = file.file_name().unwrap_or_default().display();
        let _ = writeln!(sizes, "| {name} | {} |", bytes(file)?);
    }
    release.finish(&files, &sizes)?;
    print!("{sizes}");
    if missing.is_empty() { Ok(()) } else { Err(not_built(&missing)) }
}

/// A tag of a release is `v` and the version.
fn names_version(tag: Option<&str>) -> Result<(), String> {
    match tag {
        Some(tag) if tag != format!("v{VERSION}") => {
            Err(format!("expected the tag v{VERSION}, the version of Cargo.toml, found {tag}"))
        }
        _ => Ok(()),
    }
}

/// Whether Rust's standard library for the architecture is installed.
fn has_std(arch: Arch) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let folder = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", &arch.triple()])
        .current_dir(root())
        .output();
    folder.is_ok_and(|folder| Path::new(String::from_utf8_lossy(&folder.stdout).trim()).is_dir())
}

fn not_built(missing: &[Arch]) -> String {
    let names: Vec<&str> = missing.iter().map(|arch| arch.name()).collect();
    let triples: Vec<String> = missing.iter().map(|arch| arch.triple()).collect();
    format!(
        "{} was not built: Rust's standard library for it is not installed\nhelp: run `rustup target add {}`",
        names.join(" and "),
        triples.join(" ")
    )
}

/// Removes the files of an earlier run; tools and cargo's directory stay.
fn remove_files(place: &Path) -> Result<(), String> {
    let entries = fs::read_dir(place).map_err(|error| format!("{}: {error}", place.display()))?;
    for entry in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
        fs::remove_file(&entry).map_err(|error| format!("cannot remove {}: {error}", entry.display()))?;
    }
    Ok(())
}

fn empty_folder(folder: &Path) -> Result<(), String> {
    let _old = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = fs::copy(from, to);
    copied.map(drop).map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn bytes(path: &Path) -> Result<u64, String> {
    fs::metadata(path).map(|file| file.len()).map_err(|error| format!("{}: {error}", path.display()))
}

/// Directories with the files of one architecture.
struct Built {
    wheel: PathBuf,
    archive: PathBuf,
}

impl Built {
    /// All programs and libraries.
    fn all(&self) -> Vec<PathBuf> {
        let of_wheel = wheel::PROGRAMS.iter().map(|(_, name)| self.wheel.join(name));
        of_wheel.chain([self.archive.join("warpproof")]).collect()
    }
}

struct Release<'a> {
    place: &'a Path,
    tools: Environment,
}

impl Release<'_> {
    /// Builds the programs of an architecture and copies them to where the wheel and the archive take them from.
    fn programs(&self, arch: Arch, crates: &[sbom::Crate]) -> Result<Built, String> {
        let folder = self.place.join("programs").join(arch.name());
        let built = Built { wheel: folder.join("wheel"), archive: folder.join("archive") };
        empty_folder(&built.wheel)?;
        empty_folder(&built.archive)?;
        let output = self.place.join("cargo").join(arch.triple()).join("dist");
        // The library is next to the program in the wheel, so the program does not contain it.
        self.cargo(
            arch,
            &[
                "--package",
                "warpproof",
                "--package",
                "warpproof-runtime",
                "--package",
                "warpproof-attention",
                "--no-default-features",
            ],
        )?;
        for (file, name) in wheel::PROGRAMS {
            copy(&output.join(file), &built.wheel.join(name))?;
        }
        self.cargo(arch, &["--package", "warpproof"])?;
        copy(&output.join("warpproof"), &built.archive.join("warpproof"))?;
        for name in LICENSES {
            copy(&root().join(name), &built.archive.join(name))?;
        }
        let notices = licenses::text(crates)?;
        for folder in [&built.wheel, &built.archive] {
            write(&folder.join(licenses::FILE), &notices)?;
        }
        Ok(built)
    }

    fn cargo(&self, arch: Arch, arguments: &[&str]) -> Result<(), String> {
        let cache = self.place.join("cargo");
        let (major, minor) = glibc::OLDEST;
        done(
            self.tools
                .program("cargo-zigbuild")
                .args(["zigbuild", "--locked", "--profile", "dist", "--target"])
                .arg(format!("{}.{major}.{minor}", arch.triple()))
                .arg("--target-dir")
                .arg(&cache)
                .args(arguments)
                .current_dir(root())
                .env("CARGO_ZIGBUILD_PYTHON_PATH", self.tools.programs().join("python"))
                .env("CARGO_INCREMENTAL", "0")
                .env("CARGO_ENCODED_RUSTFLAGS", without_machine_paths(&cache))
                .env_remove("RUSTFLAGS"),
        )
    }

    /// auditwheel finds what the programs in the wheel need, and the platforms that have it.
    fn audit(&self, wheel: &Path, arch: Arch) -> Result<(), String> {
        let output = self
            .tools
            .python()
            .args(["-m", "auditwheel", "show"])
            .arg(wheel)
            .output()
            .map_err(|error| format!("cannot run auditwheel: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{}", text.trim());
        if !output.status.success() {
            return Err(format!(
                "auditwheel gave {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        glibc::audited(&text, arch.name())
    }

    /// Packs a directory without a top directory, with fixed dates and no owner: the same files give the same bytes.
    fn archive(&self, folder: &Path, arch: Arch) -> Result<PathBuf, String> {
        let archive = self.place.join(arch.archive());
        done(
            Command::new("tar")
                .args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"])
                .args(["--mode=u+rwX,go+rX,go-w", "--use-compress-program=gzip -9n", "-C"])
                .arg(folder)
                .arg("-cf")
                .arg(&archive)
                .arg("."),
        )?;
        Ok(archive)
    }

    /// Installs the wheel as a user does, and finds the race of the book's page.
    fn try_wheel(&self, wheel: &Path) -> Result<(), String> {
        let folder = self.place.join("user");
        empty_folder(&folder)?;
        let user = Environment::new(&folder)?;
        user.pip(&[&wheel.display().to_string()])?;
        prints(user.program("warpproof").arg("--version"), &format!("warpproof {VERSION}"))?;
        user.pip(&SCRIPT_NEEDS)?;
        wheel::finds_race(&user)?;
        println!(
            "{}: installed; it finds the race of race.py",
            wheel.file_name().unwrap_or_default().display()
        );
        Ok(())
    }

    /// Unpacks the archive as `cargo binstall` does, runs the program, and loads the library that it contains.
    fn try_archive(&self, archive: &Path) -> Result<(), String> {
        let folder = self.place.join("unpacked");
        empty_folder(&folder)?;
        done(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&folder))?;
        let program = folder.join("warpproof");
        prints(Command::new(&program).arg("--version"), &format!("warpproof {VERSION}"))?;
        let load = "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); cuda.warpproof_driver; print('cuInit:', cuda.cuInit(0))";
        prints(
            Command::new(&program)
                .args([
                    OsStr::new("exec"),
                    OsStr::new("--"),
                    self.tools.programs().join("python").as_os_str(),
                ])
                .args(["-c", load])
                .env("WARPPROOF_CACHE", folder.join("cache"))
                .env_remove("WARPPROOF_LIBRARY"),
            "cuInit: 0",
        )?;
        println!("{}: unpacked; `exec` loads its driver", archive.file_name().unwrap_or_default().display());
        Ok(())
    }

    /// Writes the SBOM, and compares it with the schema of CycloneDX.
    fn sbom(&self, crates: &[sbom::Crate]) -> Result<PathBuf, String> {
        let path = self.place.join(format!("warpproof-{VERSION}.cdx.json"));
        write(&path, &sbom::document(crates)?)?;
        let validate = "import sys; from cyclonedx.schema import SchemaVersion; from cyclonedx.validation.json import JsonStrictValidator; \
             error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read()); sys.exit(error and repr(error))";
        done(self.tools.python().args(["-c", validate]).arg(&path))?;
        Ok(path)
    }

    /// Writes what describes the files.
    fn finish(&self, files: &[PathBuf], sizes: &str) -> Result<(), String> {
        let names = files.iter().filter_map(|file| file.file_name());
        let sums = Command::new("sha256sum")
            .args(names)
            .current_dir(self.place)
            .output()
            .map_err(|error| format!("cannot run sha256sum: {error}"))?;
        if !sums.status.success() {
            return Err(format!("sha256sum gave {}: {}", sums.status, String::from_utf8_lossy(&sums.stderr)));
        }
        write(&self.place.join("SHA256SUMS"), &String::from_utf8_lossy(&sums.stdout))?;
        write(&self.place.join("sizes.md"), sizes)?;
        let changelog = fs::read_to_string(root().join("CHANGELOG.md")).map_err(|error| error.to_string())?;
        write(&self.place.join("notes.md"), &notes(&changelog, VERSION)?)
    }
}

/// Flags with which the programs contain no path of this machine. The compiler takes the last one that fits.
fn without_machine_paths(cache: &Path) -> String {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
        .unwrap_or_default();
    let paths = [(root(), "warpproof"), (cache.to_owned(), "target"), (home, "cargo")];
    let flags = paths.iter().map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display()));
    flags.collect::<Vec<_>>().join("\u{1f}")
}

/// Runs a command that must print a text.
fn prints(command: &mut Command, wanted: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && text.contains(wanted) {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: expected `{wanted}`, found ({}):\n{text}{errors}", output.status))
}

/// The section of a version in the changelog; that of the next release if the version has none.
fn notes(changelog: &str, version: &str) -> Result<String, String> {
    let section = |name: &str| -> Option<String> {
        let (_, after) = changelog.split_once(&format!("\n## [{name}]"))?;
        let (_, body) = after.split_once('\n')?;
        let body = body.split("\n## [").next().unwrap_or(body).trim();
        Some(format!("{body}\n"))
    };
    section(version)
        .or_else(|| section("Unreleased"))
        .ok_or_else(|| format!("expected a section [{version}] or [Unreleased] in CHANGELOG.md"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_what_binstall_downloads() {
        let manifest = fs::read_to_string(root().join("crates/warpproof/Cargo.toml")).unwrap();
        for arch in Arch::value_variants() {
            let section = format!("[package.metadata.binstall.overrides.{}]\n", arch.triple());
            let (_, section) = manifest.split_once(&section).unwrap();
            let url = section.lines().find_map(|line| line.strip_prefix("pkg-url = ")).unwrap();
            let url = url.trim_matches('"').replace("{ version }", VERSION);
            assert_eq!(url, format!("{{ repo }}/releases/download/v{VERSION}/{}", arch.archive()));
        }
    }

    #[test]
    fn the_action_downloads_an_archive_and_the_checksums() {
        let script = fs::read_to_string(root().join(".github/action/install.sh")).unwrap();
        let name = Arch::X86_64.archive().replace(VERSION, "$version").replace("x86_64", "$(uname -m)");
        assert!(script.contains(&name), "{name}");
        assert!(script.contains("SHA256SUMS"));
    }

    #[test]
    fn a_wheel_has_the_platform_of_its_glibc() {
        assert_eq!(Arch::X86_64.platform(), "manylinux_2_28_x86_64");
        assert_eq!(Arch::Aarch64.platform(), "manylinux_2_28_aarch64");
    }

    #[test]
    fn a_tag_of_another_version_is_refused() {
        assert!(names_version(None).is_ok());
        assert!(names_version(Some(&format!("v{VERSION}"))).is_ok());
        let error = names_version(Some("v9.9.9")).unwrap_err();
        assert!(error.starts_with("expected the tag v") && error.ends_with("found v9.9.9"), "{error}");
    }

    #[test]
    fn an_architecture_without_a_standard_library_has_a_fix() {
        let error = not_built(&[Arch::Aarch64]);
        assert!(error.starts_with("aarch64 was not built"), "{error}");
        assert!(error.contains("`rustup target add aarch64-unknown-linux-gnu`"), "{error}");
    }

    #[test]
    fn notes_are_those_of_the_version() {
        let log = "# Changelog\n\n## [Unreleased]\n\n- next\n\n## [1.1.0] - 2026-01-01\n\n- this\n\n## [1.0.0]\n\n- last\n";
        assert_eq!(notes(log, "1.1.0").unwrap(), "- this\n");
        assert_eq!(notes(log, "1.0.0").unwrap(), "- last\n");
        assert_eq!(notes(log, "2.0.0").unwrap(), "- next\n");
        assert!(notes("# Changelog\n", "1.0.0").is_err());
    }

    #[test]
    fn a_command_that_prints_something_else_fails() {
        assert!(prints(Command::new("echo").arg("warpproof 1"), "warpproof 1").is_ok());
        let error = prints(Command::new("echo").arg("warpproof 2"), "warpproof 1").unwrap_err();
        assert!(error.contains("expected `warpproof 1`") && error.contains("warpproof 2"), "{error}");
    }
}
