//! Only `isa/` looks at how an instruction is spelled; all others ask its `Op`.

use super::File;

/// Sources that decide what an instruction does.
const WATCHED: &[&str] = &["crates/sim/src/", "crates/check/src/", "crates/count/src/", "crates/model/src/"];

/// Where spellings become an `Op`, with the reason.
const EXEMPT: &[(&str, &str)] = &[
    ("crates/sim/src/isa/", "reads the modifiers of a syntax box"),
    ("crates/sim/src/program/", "finds the entry of an instruction, and shows its text"),
    ("crates/model/src/sass/", "reads machine code, which has no table"),
    ("crates/model/src/schedule/", "reads machine code, which has no table"),
];

/// Ways to look into an opcode. [`Spelling`](warpproof_sim::program::Spelling) can only be shown; these would go around it.
const LOOKS: &[&str] = &[
    ".opcode.starts_with(",
    ".opcode.ends_with(",
    ".opcode.contains(",
    ".opcode.split(",
    ".opcode ==",
    ".opcode !=",
    ".opcode.as_str()",
    "program.text().get(",
    ".opcode(pc).to_string()",
];

pub(super) fn stays_in_the_table(files: &[File]) -> Vec<String> {
    let watched = |file: &&File| {
        WATCHED.iter().any(|path| file.path.starts_with(path))
            && !EXEMPT.iter().any(|(path, _)| file.path.starts_with(path))
    };
    let mut found = Vec::new();
    for file in files.iter().filter(watched) {
        for (number, line) in (1..).zip(file.text.lines()) {
            // The counters show opcodes under their names.
            let shown = file.path == "crates/count/src/site.rs" && line.contains("Some(_) =>");
            if !shown && LOOKS.iter().any(|look| line.contains(look)) {
                found.push(file.at(number, "looks at the spelling of an instruction; ask its `Op`"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_of_spellings_is_found() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let line = "    if instruction.opcode.starts_with(\"ld.\") {\n";
        let found = stays_in_the_table(&[file("crates/model/src/work.rs", line)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/model/src/work.rs:1: "), "{found:?}");
        assert!(stays_in_the_table(&[file("crates/sim/src/isa/op/read.rs", line)]).is_empty());
        assert!(stays_in_the_table(&[file("crates/explain/src/text.rs", line)]).is_empty());
    }
}
