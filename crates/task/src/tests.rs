use super::*;
use crate::Stage;
use crate::dtype::Dtype;
use proptest::prelude::*;

const SOFTMAX: &str = include_str!("../tests/data/softmax.toml");
const ATTENTION: &str = include_str!("../tests/data/attention.toml");

fn parse(text: &str) -> Task {
    Task::parse(text).unwrap_or_else(|problems| panic!("{}", listed(text, &problems)))
}

fn listed(text: &str, problems: &[Problem]) -> String {
    let line = |problem: &Problem| {
        let (line, column) = problem.place(text);
        let excerpt = text.get(problem.span.clone()).unwrap_or("").lines().next().unwrap_or("");
        let help = problem.help.as_ref().map(|help| format!("    help: {help}\n")).unwrap_or_default();
        format!("{line}:{column}: {} | {excerpt}\n{help}", problem.sentence)
    };
    problems.iter().map(line).collect()
}

fn problems(text: &str) -> String {
    listed(text, &Task::parse(text).unwrap_err())
}

#[test]
fn the_tasks_of_this_repository_are_read() {
    let softmax = parse(SOFTMAX);
    assert_eq!(softmax.candidates.len(), 2);
    let fused = softmax.candidate("rows-fused").unwrap();
    assert_eq!(softmax.macros(fused), ["FUSED=1"]);
    let Program::Source { launch, .. } = &fused.program else { panic!() };
    let sizes = softmax.sizes(9);
    assert_eq!(sizes[1].name, "main:m=1");
    assert_eq!(sizes.len(), 9);
    let hidden = sizes.last().unwrap();
    assert!(hidden.hidden && (1..=32).contains(&hidden.axes["n"]) && (1..=3000).contains(&hidden.axes["m"]));
    assert_eq!(softmax.sizes(9), sizes);
    assert_ne!(softmax.sizes(10), sizes);
    let geometry = softmax.geometry(fused, &launch.steps[0], &sizes[0].axes).unwrap();
    assert_eq!(geometry, Geometry { grid: [16, 1, 1], block: [128, 1, 1], shared_bytes: 0 });
}

#[test]
fn formatting_does_not_change_the_hash_and_meaning_does() {
    let task = parse(SOFTMAX);
    let other = SOFTMAX
        .replace("# Softmax", "# Anything")
        .replace("n = 16, m = 1024", "m=1_024,   n = 16")
        .replace("value = \"m\"", "value = \" ( m )\"");
    assert_eq!(parse(&other).hash(), task.hash());
    let noted = SOFTMAX.replace("one pass over a row less", "something else");
    assert_eq!(parse(&noted).hash(), task.hash());
    for (part, from, to) in [
        (Part::Shapes, "m = 1024", "m = 1023"),
        (Part::Data, "seeds = [1, 2, 3]", "seeds = [1, 2]"),
        (Part::Tolerance, "accumulate = \"f32\"", "accumulate = \"f16\""),
        (Part::Budgets, "at_most = 1024", "at_most = 1025"),
        (Part::Timing, "pairs = 100", "pairs = 101"),
        (Part::Target, "devices = [\"l4\"]", "devices = [\"l40s\"]"),
    ] {
        let changed = parse(&SOFTMAX.replace(from, to));
        assert_ne!(changed.hash(), task.hash(), "{part}");
        for any in Part::ALL {
            assert_eq!(changed.part_hash(any) != task.part_hash(any), any == part, "{part} {any}");
        }
    }
    // A key that a stage does not read does not change its hash.
    let candidate = &task.candidates[0];
    let timed = parse(&SOFTMAX.replace("pairs = 100", "pairs = 101"));
    assert_eq!(timed.stage_hash(Stage::Correct, candidate), task.stage_hash(Stage::Correct, candidate));
    assert_ne!(timed.stage_hash(Stage::Speed, candidate), task.stage_hash(Stage::Speed, candidate));
}

#[test]
fn a_changed_tolerance_needs_a_new_version() {
    let task = parse(SOFTMAX);
    let wider = SOFTMAX.replace("accumulate = \"f32\"", "accumulate = \"f16\"");
    let changed = parse(&wider);
    let error = changed.compatible(&task).unwrap_err();
    insta::assert_snapshot!(error, @"the task's tolerance changed, but its version is still 1; increase the version");
    assert!(changed.identity().may_follow(&task.identity()).is_err());
    let second = parse(&wider.replace("version = 1", "version = 2"));
    assert_eq!(second.compatible(&task), Err(Incompatible::Version(2, 1)));
    assert!(second.identity().may_follow(&task.identity()).is_ok());
    let faster = parse(&SOFTMAX.replace("pairs = 100", "pairs = 101"));
    assert!(faster.compatible(&task).is_ok());
    let identity: Identity = serde_json::from_str(&serde_json::to_string(&task.identity()).unwrap()).unwrap();
    assert_eq!(identity, task.identity());
}

#[test]
fn every_problem_is_named_at_once() {
    insta::assert_snapshot!(problems(include_str!("broken.toml")));
}

#[test]
fn an_empty_file_lacks_everything() {
    insta::assert_snapshot!(problems(""));
}

#[test]
fn a_broken_attention_task() {
    let text = ATTENTION
        .replace("\"peaked\"", "\"wide\"")
        .replace("b = 2, h = 8, s = 256, d = 64", "b = 2, h = 8, n = 256, d = 64")
        .replace("rung = \"n2\"", "rung = \"n22\"\noptions = { causal = true, format = \"fp8\" }")
        .replace("rung = \"n1\"", "rung = \"n1\"\ntoggles = { USE_TWO_LEVEL = 1 }\nflags = [\"-lineinfo\"]")
        .replace("candidate = \"h0\"", "candidate = \"h9\"");
    insta::assert_snapshot!(problems(&text));
}

#[test]
fn what_a_toggle_is_written_like_is_shown() {
    let with = |toggles: &str| problems(&format!("[[candidate]]\nname = \"a\"\n{toggles}\n"));
    let none = with("toggles = { FUSED = 1 }");
    assert!(none.contains("[[toggle]] name = \"FUSED\" values = [0, 1] default = 0"), "{none}");
    let list = with("toggles = [\"FUSED\"]");
    assert!(
        list.contains("expected a table for toggles, found a list")
            && list.contains("toggles = { NAME = 1 }"),
        "{list}"
    );
    let valueless = with("toggles = { FUSED = 1 }\n[[toggle]]\nname = \"FUSED\"");
    assert!(!valueless.contains("it is one of"), "{valueless}");
}

#[test]
fn only_the_first_syntax_errors_are_told() {
    let many = "= 1\n".repeat(50);
    assert_eq!(Task::parse(&many).unwrap_err().len(), MAX_SYNTAX_PROBLEMS);
}

#[test]
fn syntax_errors_come_alone() {
    insta::assert_snapshot!(problems("name = \nversion = = 2\n[shape\n"));
    let long = "#".repeat(MAX_BYTES + 1);
    assert!(problems(&long).contains("a task file has at most 1048576 bytes"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = Task::parse(&text);
    }

    /// A task with some of its bytes swapped, removed or duplicated.
    #[test]
    fn no_damage_panics(cuts in proptest::collection::vec((0usize..4000, 0usize..40, 0usize..4000), 1..4)) {
        for whole in [SOFTMAX, ATTENTION] {
            let mut text: Vec<char> = whole.chars().collect();
            for (from, length, to) in &cuts {
                let from = from % text.len();
                let piece: Vec<char> = text.drain(from..(from + length).min(text.len())).collect();
                let to = to % (text.len() + 1);
                text.splice(to..to, piece);
            }
            let text: String = text.into_iter().collect();
            if let Err(problems) = Task::parse(&text) {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    prop_assert!(problem.span.start <= text.len());
                    problem.place(&text);
                }
            }
        }
    }
}

const INTEGERS: &str = include_str!("../tests/data/gemm8.toml");

#[test]
fn integer_work_is_accumulated_in_integers() {
    assert_eq!(parse(INTEGERS).tolerance.policy, Policy::Derived { accumulate: Accumulate::I32 });
    let unsaid = INTEGERS.replace("accumulate = \"i32\"\n", "");
    assert_eq!(parse(&unsaid).tolerance.policy, Policy::Derived { accumulate: Accumulate::I32 });
    let wrong = problems(&INTEGERS.replace("accumulate = \"i32\"", "accumulate = \"f32\""));
    assert!(wrong.contains("integer inputs and outputs are compared exactly"), "{wrong}");
    let wrong = problems(&SOFTMAX.replace("accumulate = \"f32\"", "accumulate = \"i32\""));
    assert!(wrong.contains("sums of floating-point inputs or outputs cannot be kept in integers"), "{wrong}");
}

#[test]
fn inputs_that_are_not_numbers_need_a_policy() {
    let with =
        |text: &str| SOFTMAX.replace("    \"structured\",\n", &format!("    \"structured\",\n    {text},\n"));
    let wrong = problems(&with("\"nan\""));
    assert!(wrong.contains("non-finite inputs give non-finite outputs"), "{wrong}");
    parse(&with("\"nan\"").replace("non_finite = \"refuse\"", "non_finite = \"match\""));
    parse(&with(
        "\"masked\", \"denormal\", \"signed_zero\", \"magnitudes\", { kind = \"extreme\", fraction = 0.5 }",
    ));
}

#[test]
fn standard_distributions_are_distributions() {
    for operator in ["softmax", "gemm", "layer_norm", "reduction", "elementwise", "custom"] {
        for dtype in [Dtype::F32, Dtype::I8] {
            let list: Vec<String> =
                standard_distributions(operator, dtype).iter().map(|name| format!("\"{name}\"")).collect();
            assert!(!list.is_empty());
            let (from, rest) = SOFTMAX.split_once("distributions = [").unwrap();
            let (_, rest) = rest.split_once("\n]\n").unwrap();
            parse(&format!("{from}distributions = [{}]\n{rest}", list.join(", ")));
        }
    }
}
