//! Rules about `unsafe`.

use super::File;

/// The only files that may contain `unsafe`, each with its reason. A crate that has none of them forbids it.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/toolchain/src/nvrtc.rs", "calls NVRTC, a foreign library"),
    ("crates/toolchain/src/fork.rs", "copies this process for each compilation"),
    ("crates/gpu/src/driver.rs", "calls NVIDIA's driver, a foreign library"),
    ("crates/gpu/src/nvml.rs", "calls NVIDIA's management library, a foreign library"),
    ("crates/sim/src/simd.rs", "picks vector instructions at run time"),
    ("crates/driver/src/api/mod.rs", "exports symbols, calls callbacks of the C program"),
    ("crates/driver/src/api/init.rs", "exports the symbol that distinguishes this library from NVIDIA's"),
    ("crates/driver/src/api/pointer.rs", "pointers from the C program"),
    ("crates/driver/src/api/symbols.rs", "addresses of exported symbols"),
    ("crates/driver/src/api/function.rs", "calls a callback of the C program"),
    ("crates/driver/src/api/stream.rs", "calls callbacks of the C program"),
    ("crates/driver/src/abi.rs", "the type of callbacks of the C program"),
    ("crates/driver/src/work.rs", "the type of callbacks of the C program"),
    ("crates/driver/src/host.rs", "accesses the program's own memory"),
    ("crates/driver/src/guard.rs", "protects pages of the program's memory, handles the signal of an access"),
    ("crates/driver/src/site.rs", "walks the stack with the C runtime's unwinder"),
    ("crates/driver/src/exit.rs", "runs when the program ends"),
    (
        "crates/driver/src/memory.rs",
        "borrows and copies the program's memory; the program guarantees its validity",
    ),
    ("crates/driver/tests/behavior/main.rs", "calls the API as C does"),
    ("crates/driver/tests/behavior/program.rs", "calls the API as C does"),
    ("crates/driver/tests/behavior/cooperative.rs", "sets an environment variable"),
    ("crates/driver/tests/behavior/devices.rs", "sets an environment variable"),
    ("crates/driver/tests/behavior/mapping.rs", "sets an environment variable"),
    ("crates/driver/tests/behavior/exit.rs", "registers a handler that runs at process exit"),
    ("crates/driver/tests/behavior/memory.rs", "calls the API as C does"),
    ("crates/driver/tests/behavior/graphs.rs", "calls the API as C does"),
    ("crates/driver/tests/behavior/results.rs", "calls the API as C does"),
    ("crates/driver/tests/behavior/faults.rs", "calls the API as C does"),
    ("crates/driver/tests/behavior/threads.rs", "calls the API as C does"),
    ("crates/driver/examples/launch_cost.rs", "calls the API as C does"),
    ("crates/runtime/src/api/log.rs", "calls callbacks of the C program"),
    ("crates/runtime/src/api/mod.rs", "exports symbols, calls the driver's C interface"),
    ("crates/runtime/src/api/register.rs", "reads what the C program registered"),
    ("crates/runtime/src/api/stream.rs", "the type of callbacks of the C program"),
    ("crates/runtime/tests/shim.rs", "calls the dynamic linker"),
    ("crates/attention/src/cuda.rs", "calls NVIDIA's driver, a foreign library"),
    ("crates/attention/src/prepared.rs", "launches on addresses that the caller guarantees"),
    ("crates/attention/src/slices.rs", "launches on slices whose sizes it has checked"),
    ("crates/attention/src/abi.rs", "exports symbols, reads pointers from the C program"),
    ("crates/attention/examples/verify.rs", "calls the library with addresses"),
    ("crates/attention/tests/library.rs", "calls the interface as C does"),
    ("ecosystem/cudarc/src/context.rs", "calls cudarc's unsafe functions"),
    ("ecosystem/cudarc/src/device.rs", "likewise"),
    ("ecosystem/cudarc/src/fault.rs", "likewise"),
    ("ecosystem/cudarc/src/function.rs", "likewise"),
    ("ecosystem/cudarc/src/graph.rs", "likewise"),
    ("ecosystem/cudarc/src/launch.rs", "likewise"),
    ("ecosystem/cudarc/src/load.rs", "likewise"),
    ("ecosystem/cudarc/src/memory.rs", "likewise"),
    ("ecosystem/cudarc/src/module.rs", "likewise"),
    ("ecosystem/cudarc/src/stream.rs", "likewise"),
    ("ecosystem/cubecl/src/bin/kernels.rs", "calls CubeCL's unsafe launch: the caller guarantees lengths"),
    ("ecosystem/cubecl/src/bin/race.rs", "likewise"),
];

/// Maximum number of lines between an unsafe block and the start of its reason.
const SAFETY_LINES: usize = 8;

pub(super) fn unsafe_is_where_it_may_be(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("rs")) {
        let lines: Vec<&str> = file.text.lines().collect();
        let code = code_only(&file.text);
        for (index, line) in code.lines().enumerate() {
            let uses = after_unsafe(line);
            if uses.is_empty() {
                continue;
            }
            if !UNSAFE_FILES.iter().any(|(path, _)| *path == file.path) {
                found.push(file.at(index + 1, "`unsafe` is not allowed in this file"));
                continue;
            }
            // A block or an impl asserts something; a declaration (`unsafe fn`, `unsafe extern`) only requires it.
            let asserts = uses
                .iter()
                .any(|after| after.is_empty() || after.starts_with('{') || after.starts_with("impl"));
            let above = lines.get(index.saturating_sub(SAFETY_LINES)..=index).unwrap_or_default();
            if asserts && !above.iter().any(|line| line.contains("SAFETY:")) {
                found.push(file.at(index + 1, "an unsafe block needs `// SAFETY:` above it"));
            }
        }
    }
    found
}

pub(super) fn crates_forbid_unsafe(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let Some((folder, _)) =
            file.path.split_once("/src/lib.rs").or_else(|| file.path.split_once("/src/main.rs"))
        else {
            continue;
        };
        let needs_unsafe = UNSAFE_FILES
            .iter()
            .any(|(path, _)| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')));
        // `deny` can be lifted by a file of the list, `forbid` cannot.
        let attribute = if needs_unsafe { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
        let has = |attribute: &str| file.text.lines().any(|line| line == attribute);
        if !has(attribute) && !has("#![forbid(unsafe_code)]") {
            found.push(file.at(1, &format!("expected `{attribute}` in this crate")));
        }
    }
    found
}

/// What follows each word `unsafe` in a line of code.
fn after_unsafe(line: &str) -> Vec<&str> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let uses = line.match_indices("unsafe").filter_map(|(at, found)| {
        let (before, after) = (line.get(..at)?, line.get(at + found.len()..)?);
        (!before.ends_with(word) && !after.starts_with(word)).then(|| after.trim())
    });
    uses.collect()
}

/// The text with comments, strings and characters replaced by spaces; line breaks stay where they are.
fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = skipped(rest, code.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        if length == 0 {
            code.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        } else {
            let (gone, left) = rest.split_at_checked(length).unwrap_or((rest, ""));
            code.extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = left;
        }
    }
    code
}

/// The bytes of the comment or literal that `text` starts with; 0 when it starts with code.
pub(super) fn skipped(text: &str, in_word: bool) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment(text);
    }
    if text.starts_with('"') {
        return 1 + string_end(text.get(1..).unwrap_or_default());
    }
    if text.starts_with('\'') {
        return character(text);
    }
    // r"…", r#"…"#, br#"…"#: the number of hashes determines the end.
    if let Some(raw) = text.strip_prefix('r').or_else(|| text.strip_prefix("br")).filter(|_| !in_word) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if let Some(body) = raw.get(hashes..).and_then(|body| body.strip_prefix('"')) {
            let close = format!("\"{}", "#".repeat(hashes));
            let end = body.find(&close).map_or(body.len(), |at| at + close.len());
            return text.len() - body.len() + end;
        }
    }
    0
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Bytes up to and with the closing quote.
fn string_end(body: &str) -> usize {
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    body.len()
}

/// A character literal; a lifetime is code.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            chars.next();
            chars.find(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1)
        }
        Some(_) => chars.next().filter(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::file, *};

    const ALLOWED: &str = UNSAFE_FILES[0].0;

    #[test]
    fn unsafe_outside_the_list_is_found() {
        let found =
            unsafe_is_where_it_may_be(&[file("crates/ptx/src/lex.rs", "fn f() {\n    unsafe { g() }\n}\n")]);
        assert_eq!(found, ["crates/ptx/src/lex.rs:2: `unsafe` is not allowed in this file"]);
    }

    #[test]
    fn an_unsafe_block_without_a_reason_is_found() {
        let bare = file(ALLOWED, "fn f() {\n    unsafe { g() }\n}\n");
        assert_eq!(unsafe_is_where_it_may_be(&[bare]).len(), 1);
        let second = file(ALLOWED, "type F = unsafe fn(); let x = unsafe { g() };\n");
        assert_eq!(unsafe_is_where_it_may_be(&[second]).len(), 1);
        let split = file(ALLOWED, "let x = unsafe\n{ g() };\n");
        assert_eq!(unsafe_is_where_it_may_be(&[split]).len(), 1);
        let implementation = file(ALLOWED, "unsafe impl Send for X {}\n");
        assert_eq!(unsafe_is_where_it_may_be(&[implementation]).len(), 1);
        let reason = file(ALLOWED, "// SAFETY: g has no requirements.\nunsafe { g() }\nunsafe fn h() {}\n");
        assert!(unsafe_is_where_it_may_be(&[reason]).is_empty());
    }

    #[test]
    fn the_word_in_text_is_not_code() {
        let text = r##"
            // unsafe
            /* unsafe /* unsafe */ unsafe */
            let a = "unsafe \" unsafe";
            let b = r#"unsafe " unsafe"#;
            let c = '"'; let d: &'static str = "unsafe"; let e = '\''; let f = '\u{22}';
            #![forbid(unsafe_code)]
        "##;
        assert!(unsafe_is_where_it_may_be(&[file("a.rs", text)]).is_empty());
        // The text after them is code again.
        for tail in ["\"x\"", "r#\"x\"#", "'\"'", "/* x */", "'\\''"] {
            let text = format!("let a = {tail}; unsafe {{ g() }}");
            assert_eq!(unsafe_is_where_it_may_be(&[file("a.rs", &text)]).len(), 1, "{tail}");
        }
    }

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_is_found() {
        let lib = |path: &str, text: &str| crates_forbid_unsafe(&[file(path, text)]).len();
        assert_eq!(lib("crates/ptx/src/lib.rs", "//! x\n"), 1);
        assert_eq!(lib("crates/warpproof/src/main.rs", "// #![forbid(unsafe_code)]\n"), 1);
        assert_eq!(lib("crates/ptx/src/lib.rs", "//! x\n#![forbid(unsafe_code)]\n"), 0);
        assert_eq!(lib("crates/ptx/src/lib.rs", "#![deny(unsafe_code)]\n"), 1);
        assert_eq!(lib("crates/toolchain/src/lib.rs", "//! x\n"), 1);
        assert_eq!(lib("crates/toolchain/src/lib.rs", "#![deny(unsafe_code)]\n"), 0);
    }
}
