//! Embeds the shared library of a dependency in a program.
//!
//! Cargo compiles a dependency with crate types `["cdylib", "rlib"]` once and puts both files next to each
//! other, under one name. Before it compiles a *program*, both files are complete, and it passes the path of
//! the `rlib` to the compiler: `--extern name=PATH`. So the macro finds the shared library without a second
//! build, without guessing cargo's directories, and under cargo's name for it, which contains a hash if the
//! dependency comes from a registry.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use proc_macro::TokenStream;

/// `shared_library!("name")`: the bytes of the `cdylib` of the dependency that the compiler knows as `name`,
/// as an `Option<&'static [u8]>`. It is `None` if nothing is linked, as in `cargo check`.
#[proc_macro]
pub fn shared_library(input: TokenStream) -> TokenStream {
    let name = input.to_string();
    let code = match found(name.trim_matches('"'), std::env::args()) {
        Ok(None) => "::core::option::Option::None".to_owned(),
        Ok(Some(path)) => {
            format!(
                "::core::option::Option::Some(::core::include_bytes!({:?}).as_slice())",
                path.display().to_string()
            )
        }
        Err(why) => format!("::core::compile_error!({why:?})"),
    };
    code.parse().unwrap_or_default()
}

/// The library next to the `rlib` in the compiler's arguments; `None` if they contain only metadata.
fn found(name: &str, arguments: impl Iterator<Item = String>) -> Result<Option<PathBuf>, String> {
    let Some(path) = dependency(name, arguments) else {
        return Ok(None);
    };
    if path.extension().is_none_or(|extension| extension != "rlib") {
        return Ok(None);
    }
    let library = path.with_extension("so");
    // For a dependency in the same workspace, the name of the shared library has no hash, but that of the
    // rlib does.
    let plain = path.with_file_name(format!("lib{name}.so"));
    [library, plain].into_iter().find(|path| path.is_file()).map(Some).ok_or_else(|| {
        format!(
            "there is no shared library next to {}: build without the feature that includes it",
            path.display()
        )
    })
}

/// The file of a dependency: `--extern name=PATH`, `--extern=name=PATH`, or with options before the name.
fn dependency(name: &str, arguments: impl Iterator<Item = String>) -> Option<PathBuf> {
    let mut found = None;
    let mut follows = false;
    for argument in arguments {
        let value = if follows { Some(argument.as_str()) } else { argument.strip_prefix("--extern=") };
        follows = argument == "--extern";
        let Some((key, path)) = value.and_then(|value| value.split_once('=')) else { continue };
        if key.rsplit(':').next() != Some(name) {
            continue;
        }
        // Both may be present; the shared library is next to the rlib.
        if found.is_none() || Path::new(path).extension().is_some_and(|extension| extension == "rlib") {
            found = Some(PathBuf::from(path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> impl Iterator<Item = String> {
        text.split(' ').map(str::to_owned)
    }

    #[test]
    fn the_compilers_arguments_name_the_dependency() {
        let at = |text: &str| dependency("cuda", words(text));
        assert_eq!(at("rustc --extern cuda=a/libcuda-1.rlib -L x"), Some(PathBuf::from("a/libcuda-1.rlib")));
        assert_eq!(at("rustc --extern=priv:cuda=a/l.rlib"), Some(PathBuf::from("a/l.rlib")));
        assert_eq!(at("rustc --extern cuda=a.rmeta --extern cuda=a.rlib"), Some(PathBuf::from("a.rlib")));
        assert_eq!(at("rustc --extern other=cuda=x --extern proc_macro"), None);
    }

    #[test]
    fn a_library_that_is_not_linked_is_none_and_one_that_is_missing_an_error() {
        let folder = std::env::temp_dir().join(format!("warpproof-embed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("cannot create a directory");
        let at = |file: &str| {
            let named = format!("cuda={}", folder.join(file).display());
            found("cuda", ["--extern".to_owned(), named].into_iter())
        };
        assert_eq!(at("libcuda-1.rmeta"), Ok(None));
        assert!(at("libcuda-1.rlib").is_err());
        std::fs::write(folder.join("libcuda.so"), "").expect("cannot write a file");
        assert_eq!(at("libcuda-1.rlib"), Ok(Some(folder.join("libcuda.so"))));
        std::fs::write(folder.join("libcuda-1.so"), "").expect("cannot write a file");
        assert_eq!(at("libcuda-1.rlib"), Ok(Some(folder.join("libcuda-1.so"))));
        std::fs::remove_dir_all(&folder).expect("cannot remove the directory");
    }
}
