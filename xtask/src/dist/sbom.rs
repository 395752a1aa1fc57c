//! The SBOM of a release in the format CycloneDX: every crate that the programs are compiled from, build scripts and macros
//! included.
//!
//! It is made from `cargo tree`, not by cargo-cyclonedx: that reads `cargo metadata`, which unites the features of all packages of
//! the workspace, so it would list the TLS and HTTP crates of the fleet's client, which the programs do not contain.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::{Value, json};

use super::{Arch, VERSION};
use crate::root;

/// The release of zig, whose libunwind the programs contain.
const ZIG: &str = "zig-0.17.0";

/// A crate, with what it depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: String,
    pub(super) repository: String,
    /// References of crates.
    dependencies: BTreeSet<String>,
}

impl Crate {
    /// The package URL, by which SBOMs and databases of advisories name it.
    fn reference(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// The crates that the programs of these architectures are compiled from, sorted.
pub(super) fn crates(archs: &[Arch]) -> Result<Vec<Crate>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--package", "warpproof", "--package", "warpproof-runtime"])
        .args(["--package", "warpproof-attention"])
        .args(["--edges", "normal,build", "--prefix", "depth", "--format", "\t{p}\t{l}\t{r}\t"])
        .args(archs.iter().flat_map(|arch| ["--target".to_owned(), arch.triple()]))
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo tree gave {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    read(&String::from_utf8_lossy(&output.stdout))
}

/// Reads lines such as `1<tab>serde v1.0.2<tab>MIT<tab>https://…<tab> (*)`, in which the number is the depth.
fn read(tree: &str) -> Result<Vec<Crate>, String> {
    let mut found: BTreeMap<String, Crate> = BTreeMap::new();
    let mut parents: Vec<String> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let unknown = || format!("expected a line of `cargo tree`, found `{line}`");
        let mut parts = line.split('\t');
        let (depth, package) = (parts.next().unwrap_or_default(), parts.next().ok_or_else(unknown)?);
        let depth: usize = depth.parse().map_err(|_| unknown())?;
        let mut words = package.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let version = words.next().and_then(|word| word.strip_prefix('v')).ok_or_else(unknown)?.to_owned();
        let mut text = || parts.next().unwrap_or_default().to_owned();
        // Crates from before SPDX expressions write `MIT/Apache-2.0`.
        let (license, repository) = (text().replace('/', " OR "), text());
        let this = Crate { name, version, license, repository, dependencies: BTreeSet::new() };
        let reference = this.reference();
        found.entry(reference.clone()).or_insert(this);
        parents.truncate(depth);
        if let Some(parent) = parents.last().and_then(|parent| found.get_mut(parent)) {
            parent.dependencies.insert(reference.clone());
        }
        parents.push(reference);
    }
    Ok(found.into_values().collect())
}

/// The SHA-256 of each package from a registry, by package URL, from `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let mut sums = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key));
            line.map(|value| value.trim_start_matches(" = ").trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) = (value("name"), value("version"), value("checksum")) {
            sums.insert(format!("pkg:cargo/{name}@{version}"), sum);
        }
    }
    sums
}

/// The SBOM. It has no date and no random number, so that the same sources give the same text.
pub(super) fn document(crates: &[Crate]) -> Result<String, String> {
    let lock =
        fs::read_to_string(root().join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let rustc =
        Command::new(rustc).arg("-V").output().map_err(|error| format!("cannot run rustc: {error}"))?;
    let rustc = String::from_utf8_lossy(&rustc.stdout);
    let rust = rustc.split_whitespace().nth(1).ok_or("expected a version from rustc")?;
    let value = cyclonedx(crates, &checksums(&lock), rust);
    serde_json::to_string_pretty(&value).map(|text| text + "\n").map_err(|error| error.to_string())
}

fn cyclonedx(crates: &[Crate], sums: &BTreeMap<String, String>, rust: &str) -> Value {
    let component = |this: &Crate, kind: &str| {
        let reference = this.reference();
        let mut value = json!({
            "type": kind,
            "bom-ref": reference,
            "name": this.name,
            "version": this.version,
            "purl": reference,
        });
        if let Some(sum) = sums.get(&reference) {
            value["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        if !this.license.is_empty() {
            value["licenses"] = json!([{ "expression": this.license }]);
        }
        if !this.repository.is_empty() {
            value["externalReferences"] = json!([{ "type": "vcs", "url": this.repository }]);
        }
        value
    };
    let is_program = |this: &&Crate| this.name == "warpproof";
    // Linked into each program, though cargo does not list them.
    let linked =
        [("rust-std", rust, "MIT OR Apache-2.0"), ("llvm-libunwind", ZIG, "Apache-2.0 WITH LLVM-exception")];
    let reference = |name: &str, version: &str| format!("{name}@{version}");
    let runtimes = linked.map(|(name, version, license)| {
        json!({
            "type": "library",
            "bom-ref": reference(name, version),
            "name": name,
            "version": version,
            "licenses": [{ "expression": license }],
        })
    });
    let others = crates.iter().filter(|this| !is_program(this)).map(|this| component(this, "library"));
    let mut dependencies: Vec<Value> = crates
        .iter()
        .map(|this| {
            let mut on: Vec<String> = this.dependencies.iter().cloned().collect();
            if is_program(&this) {
                on.extend(linked.map(|(name, version, _)| reference(name, version)));
            }
            json!({ "ref": this.reference(), "dependsOn": on })
        })
        .collect();
    dependencies.extend(linked.map(|(name, version, _)| json!({ "ref": reference(name, version) })));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "lifecycles": [{ "phase": "build" }],
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist", "version": VERSION }] },
            "component": crates.iter().find(is_program).map(|this| component(this, "application")),
        },
        "components": others.chain(runtimes).collect::<Vec<Value>>(),
        "dependencies": dependencies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "0\twarpproof v0.1.0 (path)\tMIT OR Apache-2.0\thttps://host/w\t\n\
        1\tsyn v2.0.1\tMIT/Apache-2.0\thttps://host/syn\t\n\
        2\tunicode-ident v1.0.0\tMIT\t\t\n\
        1\tserde_derive v1.0.2 (proc-macro)\tMIT\t\t\n\
        2\tsyn v2.0.1\tMIT/Apache-2.0\thttps://host/syn\t (*)\n\
        \n\
        0\twarpproof-runtime v0.1.0 (path)\tMIT\t\t (*)\n";

    #[test]
    fn a_tree_is_read_with_its_edges() {
        let crates = read(TREE).unwrap();
        let names: Vec<&str> = crates.iter().map(|this| this.name.as_str()).collect();
        assert_eq!(names, ["serde_derive", "syn", "unicode-ident", "warpproof-runtime", "warpproof"]);
        assert_eq!(crates[0].dependencies, BTreeSet::from(["pkg:cargo/syn@2.0.1".to_owned()]));
        assert_eq!(crates[1].license, "MIT OR Apache-2.0");
        assert_eq!(crates[1].dependencies, BTreeSet::from(["pkg:cargo/unicode-ident@1.0.0".to_owned()]));
        assert_eq!(crates[4].dependencies.len(), 2);
        assert!(read("warpproof v0.1.0\n").is_err());
    }

    #[test]
    fn every_component_has_its_checksum_and_edges() {
        let lock = "version = 4\n\n[[package]]\nname = \"syn\"\nversion = \"2.0.1\"\nsource = \"registry\"\nchecksum = \"00ff\"\n\n\
            [[package]]\nname = \"warpproof\"\nversion = \"0.1.0\"\n";
        let sums = checksums(lock);
        assert_eq!(sums, BTreeMap::from([("pkg:cargo/syn@2.0.1".to_owned(), "00ff".to_owned())]));
        let sbom = cyclonedx(&read(TREE).unwrap(), &sums, "1.95.0");
        assert_eq!(sbom["metadata"]["component"]["purl"], "pkg:cargo/warpproof@0.1.0");
        let components = sbom["components"].as_array().unwrap();
        assert_eq!(components.len(), 6);
        assert_eq!(components[1]["hashes"][0]["content"], "00ff");
        assert_eq!(components[4]["name"], "rust-std");
        assert_eq!(sbom["dependencies"].as_array().unwrap().len(), 7);
        let program = &sbom["dependencies"][4];
        assert_eq!(program["dependsOn"].as_array().unwrap().len(), 4, "{program}");
    }

    #[test]
    fn the_version_of_zig_is_the_installed_one() {
        let pinned = ZIG.replace("zig-", "ziglang==");
        assert!(super::super::TOOLS.contains(&pinned.as_str()), "{pinned}");
    }

    /// The SBOM lists what is compiled: the crates of the fleet's client are not.
    #[test]
    fn crates_of_other_programs_are_not_listed() {
        let crates = crates(&[Arch::X86_64]).unwrap();
        let has = |name: &str| crates.iter().any(|this| this.name == name);
        assert!(has("warpproof-sim") && has("blake3") && has("serde"));
        assert!(!has("rustls") && !has("ureq") && !has("tokio") && !has("windows-sys"));
    }
}
