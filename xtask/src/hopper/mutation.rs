//! Mutants of a kernel's source: one change of one call that synchronizes or copies, or of one stage index.
//!
//! The kernels call one function for each instruction of `hopper.cuh`, so that a change of a call is a change of one instruction
//! at one line. What is changed follows from the name of the function.

/// Kinds of mutations, as named in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    Fence,
    Wait,
    Parity,
    Arrive,
    Count,
    Bytes,
    Commit,
    Copy,
    Barrier,
    Stage,
    Lanes,
    Registers,
    Tensor,
}

impl Family {
    pub(super) const ALL: [Family; 13] = [
        Family::Fence,
        Family::Wait,
        Family::Parity,
        Family::Arrive,
        Family::Count,
        Family::Bytes,
        Family::Commit,
        Family::Copy,
        Family::Barrier,
        Family::Stage,
        Family::Lanes,
        Family::Registers,
        Family::Tensor,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Family::Fence => "fence removed",
            Family::Wait => "wait removed, or waits for less",
            Family::Parity => "parity flipped",
            Family::Arrive => "arrival removed or repeated",
            Family::Count => "mbarrier initialized with another count, or not",
            Family::Bytes => "other number of bytes expected",
            Family::Commit => "commit removed",
            Family::Copy => "copy removed or repeated",
            Family::Barrier => "block, named or cluster barrier changed",
            Family::Stage => "stage index shifted by one",
            Family::Lanes => "all lanes instead of one",
            Family::Registers => "`setmaxnreg` changed",
            Family::Tensor => "tensor memory not allocated, or not freed",
        }
    }
}

/// A mutant: the whole source with one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutation {
    pub(super) family: Family,
    pub(super) line: u32,
    /// Describes the change; together with the line, it identifies the mutant within its file.
    pub(super) label: String,
    pub(super) source: String,
}

/// A call in a line: `name<template>(arguments)`.
struct Call<'l> {
    name: &'l str,
    template: Option<&'l str>,
    arguments: Vec<&'l str>,
    start: usize,
    end: usize,
}

/// Functions that are mutated.
const FUNCTIONS: &[&str] = &[
    "fence_mbarrier_init",
    "fence_proxy_async",
    "wgmma_fence",
    "wgmma_commit",
    "bulk_commit",
    "wgmma_wait",
    "bulk_wait_read",
    "mbarrier_wait",
    "mbarrier_wait_cluster",
    "mbarrier_arrive",
    "mbarrier_arrive_remote",
    "mbarrier_expect",
    "mbarrier_init",
    "tma_load",
    "tma_load_multicast",
    "tma_store",
    "add_remote",
    "store_remote",
    "named_barrier_sync",
    "named_barrier_arrive",
    "__syncthreads",
    "cluster_arrive",
    "cluster_wait",
    "setmaxnreg_inc",
    "setmaxnreg_dec",
    "fence_before_sync",
    "fence_after_sync",
    "mma_commit",
    "tensor_wait_loads",
    "tensor_wait_stores",
    "tensor_alloc",
    "tensor_free",
];

/// The call that begins at this offset, if it is complete.
fn call_at(line: &str, start: usize) -> Option<Call<'_>> {
    let text = &line[start..];
    let length = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, mut rest) = text.split_at(length);
    if !FUNCTIONS.contains(&name) {
        return None;
    }
    let mut template = None;
    if let Some(inside) = rest.strip_prefix('<') {
        let (number, after) = inside.split_once('>')?;
        template = Some(number);
        rest = after;
    }
    let open = line.len() - rest.len();
    let (mut depth, mut from, mut arguments) = (0u32, open + 1, Vec::new());
    for (at, c) in rest.char_indices().map(|(at, c)| (open + at, c)) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    if at > from {
                        arguments.push(line[from..at].trim());
                    }
                    return Some(Call { name, template, arguments, start, end: at + 1 });
                }
            }
            ',' if depth == 1 => {
                arguments.push(line[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// The calls of a line.
fn calls(line: &str) -> Vec<Call<'_>> {
    let mut found = Vec::new();
    let mut previous = ' ';
    for (at, c) in line.char_indices() {
        let begins =
            (c.is_ascii_alphabetic() || c == '_') && !(previous.is_ascii_alphanumeric() || previous == '_');
        if begins && let Some(call) = call_at(line, at) {
            found.push(call);
        }
        previous = c;
    }
    found
}

/// The changes of one call: family, description, replacement.
fn changes(call: &Call<'_>) -> Vec<(Family, String, String)> {
    let Call { name, template, arguments, .. } = call;
    let with = |at: usize, text: String| {
        let mut changed: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        changed[at] = text;
        format!("{name}({})", changed.join(", "))
    };
    let whole = match template {
        Some(number) => format!("{name}<{number}>()"),
        None => format!("{name}({})", arguments.join(", ")),
    };
    let removed = |family| (family, "removed".to_owned(), "(void)0".to_owned());
    let repeated = |family| (family, "repeated".to_owned(), format!("({whole}, {whole})"));
    let number = template.and_then(|number| number.parse::<i32>().ok()).unwrap_or(0);
    match *name {
        "fence_mbarrier_init"
        | "fence_proxy_async"
        | "wgmma_fence"
        | "fence_before_sync"
        | "fence_after_sync" => vec![removed(Family::Fence)],
        "wgmma_commit" | "bulk_commit" | "mma_commit" => vec![removed(Family::Commit)],
        "tensor_wait_loads" | "tensor_wait_stores" => vec![removed(Family::Wait)],
        "tensor_alloc" | "tensor_free" => vec![removed(Family::Tensor)],
        "wgmma_wait" | "bulk_wait_read" => {
            let more = number + 1;
            vec![
                removed(Family::Wait),
                (Family::Wait, format!("leaves {more} groups"), format!("{name}<{more}>()")),
            ]
        }
        "mbarrier_wait" | "mbarrier_wait_cluster" => {
            let flipped = with(1, format!("({}) ^ 1", arguments[1]));
            let mut list =
                vec![removed(Family::Wait), (Family::Parity, "with the other parity".to_owned(), flipped)];
            if *name == "mbarrier_wait_cluster" {
                let narrow = format!("mbarrier_wait({})", arguments.join(", "));
                list.push((Family::Wait, "with the block as its scope".to_owned(), narrow));
            }
            list
        }
        "mbarrier_arrive" | "mbarrier_arrive_remote" => {
            vec![removed(Family::Arrive), repeated(Family::Arrive)]
        }
        "mbarrier_expect" => {
            let other = |text: &str| with(1, format!("({}) {text}", arguments[1]));
            vec![
                removed(Family::Bytes),
                (Family::Bytes, "expects 16 bytes more".to_owned(), other("+ 16")),
                (Family::Bytes, "expects 16 bytes less".to_owned(), other("- 16")),
                (
                    Family::Bytes,
                    "arrives without bytes".to_owned(),
                    format!("mbarrier_arrive({})", arguments[0]),
                ),
                repeated(Family::Bytes),
            ]
        }
        "mbarrier_init" => {
            let mut list = vec![
                removed(Family::Count),
                (
                    Family::Count,
                    "expects one arrival more".to_owned(),
                    with(1, format!("({}) + 1", arguments[1])),
                ),
            ];
            // A count of zero is rejected by the manual, not by what the kernel does.
            if arguments[1] != "1" {
                list.push((
                    Family::Count,
                    "expects one arrival less".to_owned(),
                    with(1, format!("({}) - 1", arguments[1])),
                ));
            }
            list
        }
        "tma_load" | "tma_load_multicast" | "tma_store" | "add_remote" => {
            vec![removed(Family::Copy), repeated(Family::Copy)]
        }
        "store_remote" => vec![removed(Family::Copy)],
        "named_barrier_sync" | "named_barrier_arrive" => vec![
            removed(Family::Barrier),
            (Family::Barrier, "at the next barrier".to_owned(), with(0, format!("({}) + 1", arguments[0]))),
            (
                Family::Barrier,
                "counts 32 threads less".to_owned(),
                with(1, format!("({}) - 32", arguments[1])),
            ),
            repeated(Family::Barrier),
        ],
        "__syncthreads" | "cluster_arrive" | "cluster_wait" => vec![removed(Family::Barrier)],
        "setmaxnreg_inc" | "setmaxnreg_dec" => {
            let more = number + 8;
            vec![
                removed(Family::Registers),
                (Family::Registers, format!("asks for {more}"), format!("{name}<{more}>()")),
            ]
        }
        _ => Vec::new(),
    }
}

/// Variables that index stages.
const STAGES: &[&str] = &["stage", "previous", "next"];

/// The name of the array before an index, and the text of that element.
fn element(line: &str, open: usize, close: usize) -> &str {
    let start = line[..open]
        .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
        .map_or(0, |at| at + 1);
    &line[start..=close]
}

/// The changes of a line that are not of a call: from, to, replacement, family and description.
fn others(line: &str) -> Vec<(usize, usize, String, Family, String)> {
    let mut found = Vec::new();
    for variable in STAGES {
        let index = format!("[{variable}]");
        for (at, _) in line.match_indices(&index) {
            let end = at + index.len();
            let label = format!("`{}` of the next stage", element(line, at, end - 1));
            found.push((at, end, format!("[({variable} + 1) % STAGES]"), Family::Stage, label));
        }
    }
    let code = line.split("//").next().unwrap_or_default();
    if code.trim() == "phase ^= 1;" {
        let at = line.find("phase").unwrap_or(0);
        found.push((
            at,
            line.len(),
            "(void)0;".to_owned(),
            Family::Parity,
            "`phase ^= 1` removed".to_owned(),
        ));
    }
    for (text, all) in [("elect()", "true"), ("lane == 0", "true")] {
        if let Some(at) = code.find(text).filter(|_| code.contains("if (")) {
            found.push((
                at,
                at + text.len(),
                all.to_owned(),
                Family::Lanes,
                format!("`{text}` for all lanes"),
            ));
        }
    }
    found
}

/// All mutants of a source, by line.
pub(super) fn mutations(source: &str) -> Vec<Mutation> {
    let lines: Vec<&str> = source.lines().collect();
    let replaced = |at: usize, text: &str| {
        let mut all: Vec<&str> = lines.clone();
        all[at] = text;
        all.join("\n") + "\n"
    };
    let mut found: Vec<Mutation> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        // Functions that wrap an instruction are not mutated.
        if line.starts_with("__device__") || line.starts_with("extern") || line.trim_start().starts_with("//")
        {
            continue;
        }
        let mut edits = others(line);
        for call in calls(line) {
            let shown = match call.template {
                Some(number) => format!("{}<{number}>", call.name),
                None => call.name.to_owned(),
            };
            edits.extend(
                changes(&call).into_iter().map(|(family, how, text)| {
                    (call.start, call.end, text, family, format!("`{shown}` {how}"))
                }),
            );
        }
        for (start, end, text, family, label) in edits {
            let changed = format!("{}{text}{}", &line[..start], &line[end..]);
            let line = u32::try_from(at + 1).unwrap_or(u32::MAX);
            found.push(Mutation { family, line, label, source: replaced(at, &changed) });
        }
        // Both halves of a cluster's barrier.
        if line.trim() == "cluster_arrive();"
            && lines.get(at + 1).is_some_and(|next| next.trim() == "cluster_wait();")
        {
            let mut all = lines.clone();
            all[at] = "";
            all[at + 1] = "";
            found.push(Mutation {
                family: Family::Barrier,
                line: u32::try_from(at + 1).unwrap_or(u32::MAX),
                label: "`cluster_arrive` and `cluster_wait` removed".to_owned(),
                source: all.join("\n") + "\n",
            });
        }
    }
    // Equal labels of one line are numbered from left to right.
    let mut labels: Vec<(u32, String)> = Vec::new();
    for mutation in &mut found {
        let key = (mutation.line, mutation.label.clone());
        let times = labels.iter().filter(|label| **label == key).count();
        labels.push(key);
        if times > 0 {
            mutation.label = format!("{} ({})", mutation.label, times + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_indices_and_guards_are_changed_one_at_a_time() {
        let source = "\
__device__ void mbarrier_wait(int) {}
    // wgmma_fence() in a comment
    mbarrier_wait(&shared.full[stage], phase ^ 1);
    wgmma_wait<1>();
    if (lane == 0)
        phase ^= 1;
    tma_load(a[stage], &a, &full[stage], f(1, 2), row);
    cluster_arrive();
    cluster_wait();
";
        let list = mutations(source);
        let shown: Vec<String> = list
            .iter()
            .map(|mutation| {
                let line = usize::try_from(mutation.line).unwrap_or(0) - 1;
                let text = mutation.source.lines().nth(line).unwrap_or_default().trim();
                format!("{}: {} → {text}", mutation.line, mutation.label)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "3: `shared.full[stage]` of the next stage → mbarrier_wait(&shared.full[(stage + 1) % STAGES], phase ^ 1);",
                "3: `mbarrier_wait` removed → (void)0;",
                "3: `mbarrier_wait` with the other parity → mbarrier_wait(&shared.full[stage], (phase ^ 1) ^ 1);",
                "4: `wgmma_wait<1>` removed → (void)0;",
                "4: `wgmma_wait<1>` leaves 2 groups → wgmma_wait<2>();",
                "5: `lane == 0` for all lanes → if (true)",
                "6: `phase ^= 1` removed → (void)0;",
                "7: `a[stage]` of the next stage → tma_load(a[(stage + 1) % STAGES], &a, &full[stage], f(1, 2), row);",
                "7: `full[stage]` of the next stage → tma_load(a[stage], &a, &full[(stage + 1) % STAGES], f(1, 2), row);",
                "7: `tma_load` removed → (void)0;",
                "7: `tma_load` repeated → (tma_load(a[stage], &a, &full[stage], f(1, 2), row), tma_load(a[stage], &a, &full[stage], f(1, 2), row));",
                "8: `cluster_arrive` removed → (void)0;",
                "8: `cluster_arrive` and `cluster_wait` removed → ",
                "9: `cluster_wait` removed → (void)0;",
            ]
        );
        assert!(list.iter().all(|mutation| mutation.source.lines().count() == source.lines().count()));
    }
}
