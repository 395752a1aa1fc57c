//! The kernels' CUDA C++ sources, embedded in the library, so that a user needs no checkout.

use warpproof_toolchain::{CompileError, CompileOptions, Source, Toolchain};

/// Sources and headers by name.
const FILES: &[(&str, &str)] = &[
    ("accumulator.cuh", include_str!("../cuda/accumulator.cuh")),
    ("dense.cuh", include_str!("../cuda/dense.cuh")),
    ("fp8.cuh", include_str!("../cuda/fp8.cuh")),
    ("fragment.cuh", include_str!("../cuda/fragment.cuh")),
    ("historical.cu", include_str!("../cuda/historical.cu")),
    ("merge.cuh", include_str!("../cuda/merge.cuh")),
    ("n1.cu", include_str!("../cuda/n1.cu")),
    ("n2.cu", include_str!("../cuda/n2.cu")),
    ("n3.cu", include_str!("../cuda/n3.cu")),
    ("n4.cu", include_str!("../cuda/n4.cu")),
    ("n5.cu", include_str!("../cuda/n5.cu")),
    ("n8.cu", include_str!("../cuda/n8.cu")),
    ("n9.cu", include_str!("../cuda/n9.cu")),
    ("params.cuh", include_str!("../cuda/params.cuh")),
    ("ptx.cuh", include_str!("../cuda/ptx.cuh")),
    ("quantize.cu", include_str!("../cuda/quantize.cu")),
    ("quantized.cuh", include_str!("../cuda/quantized.cuh")),
    ("softmax.cuh", include_str!("../cuda/softmax.cuh")),
    ("tile.cuh", include_str!("../cuda/tile.cuh")),
    ("unsmooth.cu", include_str!("../cuda/unsmooth.cu")),
    ("work.cuh", include_str!("../cuda/work.cuh")),
];

/// The options with which every source is compiled.
pub fn options(defines: &[String], arch: &str) -> CompileOptions {
    CompileOptions { defines: defines.to_vec(), std: Some("c++17".to_owned()), ..CompileOptions::new(arch) }
}

/// A source as the compiler reads it. Returns `None` for an unknown source.
pub fn named(name: &str) -> Option<Source> {
    expanded(name).map(|text| Source::new(name, text))
}

/// Compiles a source to PTX.
pub(crate) fn compile(
    name: &str,
    defines: &[String],
    arch: &str,
    toolchain: &Toolchain,
) -> Result<String, CompileError> {
    let Some(source) = named(name) else {
        return Err(CompileError::Options(format!("there is no source `{name}`")));
    };
    Ok(toolchain.compile(&source, &options(defines, arch))?.ptx)
}

/// The text of a source with each header included once; `#line` directives keep file names and line numbers
/// in messages correct. Returns `None` for an unknown source.
pub fn expanded(name: &str) -> Option<String> {
    let mut done = Vec::new();
    let mut out = String::new();
    expand(name, &mut done, &mut out).then_some(out)
}

fn expand<'a>(name: &'a str, done: &mut Vec<&'a str>, out: &mut String) -> bool {
    let Some((_, text)) = FILES.iter().find(|(file, _)| *file == name) else { return false };
    done.push(name);
    out.extend(["#line 1 \"", name, "\"\n"]);
    for (index, line) in text.lines().enumerate() {
        let header = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
        match header {
            Some(header) => {
                if !done.contains(&header) && !expand(header, done, out) {
                    return false;
                }
                out.extend(["#line ", &(index + 2).to_string(), " \"", name, "\"\n"]);
            }
            None if line == "#pragma once" => out.push('\n'),
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    true
}

/// Every source and header, by name.
pub fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_once_and_before_their_use() {
        let text = expanded("n4.cu").unwrap();
        assert_eq!(text.matches("struct Operand {").count(), 1);
        assert_eq!(text.matches("#line 1 \"ptx.cuh\"").count(), 1, "several headers include it");
        assert!(text.find("struct Work {") < text.find("void __launch_bounds__"));
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = expanded("n4.cu").unwrap();
        let original = files().find(|(name, _)| *name == "n4.cu").unwrap().1;
        let at = 1 + original.lines().position(|line| line.contains("__global__ void")).unwrap();
        let (mut line, mut file) = (0, String::new());
        for text in text.lines() {
            if let Some(rest) = text.strip_prefix("#line ") {
                let (number, name) = rest.split_once(' ').unwrap();
                (line, file) = (number.parse::<usize>().unwrap(), name.trim_matches('"').to_owned());
                continue;
            }
            if text.contains("__global__ void") {
                break;
            }
            line += 1;
        }
        assert_eq!((line, file.as_str()), (at, "n4.cu"));
    }

    #[test]
    fn every_file_of_the_folder_is_carried() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("cuda");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        let carried: Vec<&str> = files().map(|(name, _)| name).collect();
        assert_eq!(there, carried);
    }

    #[test]
    fn an_unknown_source_is_none() {
        assert_eq!(expanded("n99.cu"), None);
    }
}
