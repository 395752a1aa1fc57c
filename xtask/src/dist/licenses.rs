//! The license texts of the crates that the programs are compiled from; most licenses require them next to a program.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
};

use serde_json::Value;

use super::sbom::Crate;
use crate::root;

/// The file with the texts.
pub(super) const FILE: &str = "LICENSE-THIRD-PARTY";
/// How the names of such files begin.
const NAMES: [&str; 5] = ["COPYING", "COPYRIGHT", "LICENCE", "LICENSE", "NOTICE"];

/// Each text once, after the crates that have it. Crates of this repository have its licenses.
pub(super) fn text(crates: &[Crate]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cannot read cargo's metadata: {error}"))?;
    let mut list = String::new();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in
        metadata["packages"].as_array().into_iter().flatten().filter(|package| !package["source"].is_null())
    {
        let (name, version) = (package["name"].as_str(), package["version"].as_str());
        let found = crates
            .iter()
            .find(|this| (Some(this.name.as_str()), Some(this.version.as_str())) == (name, version));
        let Some(this) = found else { continue };
        let title = format!("{} {}", this.name, this.version);
        let _ = writeln!(list, "{title}: {}", this.license);
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        for text in texts_of(manifest.parent().unwrap_or(manifest)) {
            texts.entry(text).or_default().insert(title.clone());
        }
    }
    Ok(joined(&list, &texts))
}

/// The license texts in a directory.
fn texts_of(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().to_uppercase();
        NAMES.iter().any(|start| name.starts_with(start))
    });
    named
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .map(|text| text.trim().to_owned())
        .collect()
}

fn joined(list: &str, texts: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut all = format!(
        "Warpproof's programs are compiled from these crates. They also contain Rust's standard library (MIT OR Apache-2.0) and \
         LLVM's libunwind (Apache-2.0 WITH LLVM-exception).\n\n{list}"
    );
    for (text, crates) in texts {
        let crates: Vec<&str> = crates.iter().map(String::as_str).collect();
        let _ = write!(all, "\n{}\n{}:\n\n{text}\n", "-".repeat(80), crates.join(", "));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("LICENSE-MIT", "Permission is granted\n"),
            ("license.txt", "Redistribution\n"),
            ("lib.rs", "fn"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut found = texts_of(folder.path());
        found.sort();
        assert_eq!(found, ["Permission is granted", "Redistribution"]);
        let of = |crates: &[&str]| crates.iter().map(|name| (*name).to_owned()).collect();
        let texts =
            BTreeMap::from([(found[0].clone(), of(&["a 1", "b 2"])), (found[1].clone(), of(&["a 1"]))]);
        let text = joined("a 1: MIT\nb 2: MIT\n", &texts);
        assert_eq!(text.matches("Permission is granted").count(), 1);
        assert!(text.contains("a 1, b 2:\n\nPermission is granted\n"), "{text}");
    }
}
