//! What the programs of a release need from the system they run on.

use std::path::Path;
use std::process::Command;

/// The oldest C library that the programs support: that of RHEL 8, Debian 10 and Ubuntu 18.10.
pub(super) const OLDEST: (u32, u32) = (2, 28);

/// Libraries that are part of glibc and of the compiler's runtime, without the end of their names.
const SYSTEM: [&str; 9] = [
    "ld-linux-x86-64.so",
    "ld-linux-aarch64.so",
    "libc.so",
    "libdl.so",
    "libgcc_s.so",
    "libm.so",
    "libpthread.so",
    "librt.so",
    "libutil.so",
];

/// Checks the machine, the libraries and the symbols of a program.
pub(super) fn check(program: &Path, arch: &str) -> Result<(), String> {
    let output = Command::new("readelf")
        .args(["--wide", "--file-header", "--dynamic", "--dyn-syms"])
        .arg(program)
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| format!("cannot run readelf: {error}"))?;
    if !output.status.success() {
        return Err(format!("readelf gave {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    let newest = runs_on(&String::from_utf8_lossy(&output.stdout), arch)
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let (major, minor) = newest;
    println!("{}: needs glibc {major}.{minor}", program.display());
    Ok(())
}

/// The newest version of glibc that a program needs, from what readelf prints about it.
fn runs_on(readelf: &str, arch: &str) -> Result<(u32, u32), String> {
    let machine = readelf.lines().find_map(|line| line.trim().strip_prefix("Machine:")).unwrap_or("").trim();
    if machine.to_lowercase().replace('-', "_").split(' ').all(|word| word != arch) {
        return Err(format!("expected a program for {arch}, found one for `{machine}`"));
    }
    for line in readelf.lines().filter(|line| line.contains("(NEEDED)")) {
        let library = line.split_once('[').and_then(|(_, name)| name.split(']').next()).unwrap_or(line);
        if !SYSTEM.iter().any(|name| library.starts_with(name)) {
            return Err(format!("expected only libraries of glibc, found `{library}`"));
        }
    }
    let mut newest = None;
    for line in readelf.lines() {
        let Some(symbol) = line.split_whitespace().find(|word| word.contains("@GLIBC_")) else { continue };
        let version = symbol.rsplit("@GLIBC_").next().and_then(version).ok_or_else(|| {
            // GLIBC_PRIVATE, which only glibc itself may use.
            format!("expected a public version of glibc, found `{symbol}`")
        })?;
        if version > OLDEST {
            let (major, minor) = OLDEST;
            return Err(format!("expected symbols of glibc {major}.{minor} or older, found `{symbol}`"));
        }
        newest = newest.max(Some(version));
    }
    newest.ok_or_else(|| "expected symbols of glibc, found none".to_owned())
}

/// `2.28` or `2.2.5`, without its third part.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
        _ => None,
    }
}

/// Whether `auditwheel show` finds the wheel consistent with [`OLDEST`] or an older platform. Its exit code is 0 in any case.
pub(super) fn audited(text: &str, arch: &str) -> Result<(), String> {
    // Line breaks depend on the width of the terminal.
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let tag = text
        .split_once("is consistent with the following platform tag: \"")
        .and_then(|(_, after)| after.split('"').next())
        .ok_or_else(|| format!("expected a platform tag from auditwheel, found: {text}"))?;
    let found = tag
        .strip_prefix("manylinux_")
        .and_then(|rest| rest.strip_suffix(arch))
        .and_then(|version| version.trim_end_matches('_').split_once('_'))
        .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    match found {
        Some(found) if found <= OLDEST => Ok(()),
        _ => {
            let (major, minor) = OLDEST;
            Err(format!("expected manylinux_{major}_{minor}_{arch} or older, found `{tag}`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "ELF Header:\n  Machine:                           Advanced Micro Devices X86-64\n";

    fn with(lines: &str) -> String {
        format!("{HEADER}{lines}")
    }

    fn symbol(name: &str) -> String {
        format!("     5: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND {name} (5)\n")
    }

    #[test]
    fn the_newest_symbol_counts() {
        let text = with(
            &(symbol("memcpy@GLIBC_2.14") + &symbol("fcntl64@GLIBC_2.28") + &symbol("open@GLIBC_2.2.5")),
        );
        assert_eq!(runs_on(&text, "x86_64"), Ok((2, 28)));
    }

    #[test]
    fn a_symbol_of_a_newer_glibc_is_refused() {
        let text = with(&(symbol("memcpy@GLIBC_2.14") + &symbol("pthread_create@GLIBC_2.34")));
        assert_eq!(
            runs_on(&text, "x86_64"),
            Err("expected symbols of glibc 2.28 or older, found `pthread_create@GLIBC_2.34`".to_owned())
        );
        assert!(runs_on(&with(&symbol("x@GLIBC_2.29")), "x86_64").is_err());
        assert!(runs_on(&with(&symbol("x@GLIBC_3.0")), "x86_64").is_err());
        assert!(runs_on(&with(&symbol("x@GLIBC_PRIVATE")), "x86_64").is_err());
        // A program of another C library, or readelf prints something else.
        assert!(runs_on(&with(""), "x86_64").is_err());
    }

    #[test]
    fn libraries_of_others_are_refused() {
        let needed =
            |name: &str| format!(" 0x0000000000000001 (NEEDED)             Shared library: [{name}]\n");
        let text = |name: &str| with(&(needed("libc.so.6") + &needed(name) + &symbol("x@GLIBC_2.17")));
        assert!(runs_on(&text("libm.so.6"), "x86_64").is_ok());
        let error = runs_on(&text("libcrypto.so.3"), "x86_64").unwrap_err();
        assert_eq!(error, "expected only libraries of glibc, found `libcrypto.so.3`");
    }

    #[test]
    fn a_program_of_another_machine_is_refused() {
        let text = with(&symbol("x@GLIBC_2.17"));
        assert!(runs_on(&text, "aarch64").is_err());
        assert_eq!(
            runs_on(&text.replace("Advanced Micro Devices X86-64", "AArch64"), "aarch64"),
            Ok((2, 17))
        );
    }

    #[test]
    fn a_wheel_that_needs_a_newer_platform_is_refused() {
        let shown = |tag: &str| {
            format!(
                "\nwarpproof-0.1.0.whl\nis consistent with the following platform\ntag: \"{tag}\".\n\nThe wheel references…"
            )
        };
        assert!(audited(&shown("manylinux_2_28_x86_64"), "x86_64").is_ok());
        assert!(audited(&shown("manylinux_2_5_x86_64"), "x86_64").is_ok());
        for tag in ["manylinux_2_34_x86_64", "linux_x86_64", "manylinux_2_28_aarch64"] {
            let error = audited(&shown(tag), "x86_64").unwrap_err();
            assert_eq!(error, format!("expected manylinux_2_28_x86_64 or older, found `{tag}`"));
        }
        assert!(audited("", "x86_64").is_err());
    }
}
