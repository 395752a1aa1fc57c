use super::*;
use crate::Stage;
use crate::dtype::Dtype;
use proptest::prelude::*;

const SOFTMAX: &str = include_str!("../tests/data/softmax.toml");
const ATTENTION: &str = include_str!("../tests/data/attention.toml");
const OPTIONS: &str = include_str!("../tests/data/attention-options.toml");

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
fn broken_options_of_attention() {
    // Values that cannot be read.
    let text = OPTIONS
        .replace("output_dtype = \"bf16\"", "output_dtype = \"f32\"")
        .replace("window_size = [40, 0]", "window_size = [40]")
        .replace("window_size = [33, 20]", "window_size = [33, -2]")
        .replace("softcap = 2.0", "softcap = -2.0")
        .replace("alibi = true", "alibi = 1")
        .replace("seqlens_q = [70, 1, 33]", "seqlens_q = [70, 1]")
        .replace("seqlens_k = [70, 130, 33]", "seqlens_k = [70, 129, 33]")
        .replace("splits = 4", "splits = 4, window_size = [3, 0]")
        .replace("input_dtype = \"bf16\"", "input_dtype = \"f64\"");
    let read = problems(&text);
    // Options that a kernel does not have, and shapes that it does not support.
    let text = OPTIONS
        .replace("rung = \"n9\"", "rung = \"n4\"")
        .replace("page_size = 128", "page_size = 100")
        .replace("options = { splits = 4 }", "options = { splits = 4, operand = \"q\" }")
        .replace("layout = \"bshd\", lse = true", "lse = true")
        .replace(
            "options = { operand = \"v\", scales = \"tensor\" }",
            "options = { operand = \"v\", smooth_k = true }",
        )
        .replace("lse = true, scales = \"block\"", "lse = true, smooth_k = true")
        .replace(
            "[\"plain\", \"varlen\", \"d128\"]\noptions = { layout",
            "[\"plain\"]\noptions = { page_size = 64, layout",
        );
    insta::assert_snapshot!(format!("{read}\n{}", problems(&text)));
}

#[test]
fn every_option_of_attention_is_part_of_the_hash_and_of_the_work() {
    use warpproof_kernels::{Element, OutputFormat, Window};
    let task = parse(OPTIONS);
    let stages = [Stage::Correct, Stage::Checks, Stage::Counters, Stage::Model];
    // In a shape, in the reference, and in a candidate.
    for (part, from, to) in [
        (Some(Part::Shapes), "output_dtype = \"bf16\"", "output_dtype = \"f16\""),
        (Some(Part::Shapes), "window_size = [40, 0]", "window_size = [41, 0]"),
        (Some(Part::Shapes), "softcap = 2.0", "softcap = 3.0"),
        (Some(Part::Shapes), "sinks = true", "sinks = false"),
        (Some(Part::Shapes), "alibi = true", "alibi = false"),
        (Some(Part::Shapes), "seqlens_q = [70, 1, 33]", "seqlens_q = [70, 2, 33]"),
        (Some(Part::Shapes), "seqlens_k = [70, 130, 33]", "seqlens_k = [71, 130, 33]"),
        (Some(Part::Reference), "[reference]\n", "[reference]\nsoftcap = 9.0\n"),
        (Some(Part::Reference), "[reference]\n", "[reference]\nwindow_size = [-1, 5]\n"),
        (Some(Part::Reference), "[reference]\n", "[reference]\nsinks = false\n"),
        (None, "page_size = 64", "page_size = 256"),
        (None, "options = { smooth_k = true }", "options = { smooth_k = false }"),
        (None, "input_dtype = \"bf16\"", "input_dtype = \"f32\""),
        (
            None,
            "operand = \"k\", input_dtype = \"f16\", smooth_k = true",
            "operand = \"v\", input_dtype = \"f16\"",
        ),
    ] {
        let text = OPTIONS.replacen(from, to, 1);
        assert_ne!(text, OPTIONS, "{from}");
        let other = parse(&text);
        assert_ne!(other.hash(), task.hash(), "{to}");
        if let Some(part) = part {
            let changed: Vec<Part> = Part::ALL
                .into_iter()
                .filter(|part| other.part_hash(*part) != task.part_hash(*part))
                .collect();
            assert_eq!(changed, [part], "{to}");
        }
        let keys = |task: &Task| {
            let all = task.candidates.iter().flat_map(|one| stages.map(|stage| task.stage_hash(stage, one)));
            all.collect::<Vec<String>>()
        };
        assert!(keys(&task).iter().zip(keys(&other)).any(|(a, b)| *a != b), "{to}");
    }

    let sizes = task.sizes(0);
    let request = |candidate: &str, shape: &str| {
        let size = sizes.iter().find(|size| size.name == shape).unwrap();
        match task.attention(task.candidate(candidate).unwrap(), size).unwrap() {
            AttentionWork::Attention { request, .. }
            | AttentionWork::Quantize { request, .. }
            | AttentionWork::Unsmooth(request) => request,
        }
    };
    assert_eq!(request("options", "bf16").output, OutputFormat::Bf16);
    assert_eq!(request("options", "window").window, Window { left: Some(33), right: Some(20) });
    assert_eq!(request("options", "softcap").softcap, Some(2.0));
    assert!(request("options", "sinks").sinks && request("options", "alibi").alibi);
    assert_eq!(request("pages", "varlen").page_size, Some(64));
    let lengths = request("varlen", "varlen").shape.sequences;
    assert_eq!(
        lengths.iter().map(|one| (one.queries, one.keys)).collect::<Vec<_>>(),
        [(70, 70), (1, 130), (33, 33)]
    );
    assert!(request("unsmooth", "plain").lse);
    let plain = sizes.iter().find(|size| size.name == "plain").unwrap();
    let work = task.attention(task.candidate("quantize-k").unwrap(), plain).unwrap();
    assert!(matches!(work, AttentionWork::Quantize { element: Element::F16, smooth: true, .. }), "{work:?}");
    // A shape can turn an option of the task off.
    let capped =
        parse(
            &OPTIONS
                .replace("[reference]\n", "[reference]\nsoftcap = 9.0\nwindow_size = [5, -1]\n")
                .replacen("output_dtype = \"bf16\"", "softcap = 0.0\nwindow_size = [-1, -1]", 1),
        );
    let Reference::BuiltIn { operator: Operator::Attention(operator) } = &capped.reference else { panic!() };
    let sizes = capped.sizes(0);
    assert_eq!(operator.on(&sizes[0]).extended(), Vec::<&str>::new());
    assert_eq!(operator.on(&sizes[1]).extended(), ["window_size", "softcap"]);
}

/// Ledgers have these hashes: results would no longer be found under others.
#[test]
fn the_hashes_of_options_of_attention_stay() {
    let all = "[reference]\nsoftmax_scale = 0.5\nwindow_size = [5, -1]\nsoftcap = 9.0\nsinks = true\nalibi = false\noutput_dtype = \"bf16\"\n";
    let hashes = |text: &str| {
        let task = parse(text);
        let candidate = task.candidates.first().unwrap();
        let all = [
            task.hash(),
            task.part_hash(Part::Shapes),
            task.part_hash(Part::Reference),
            task.stage_hash(Stage::Correct, candidate),
        ];
        all.map(|hash| hash.get(..16).unwrap().to_owned())
    };
    assert_eq!(
        [hashes(OPTIONS), hashes(&OPTIONS.replace("[reference]\n", all))],
        [
            ["b4fb526f54a31590", "709bf1283fdc315e", "856132e45546774e", "d3872c731530c075"],
            ["403c6145ce1e59f1", "709bf1283fdc315e", "8a334fe122b84613", "27ece8ad85bde91d"],
        ]
    );
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
        for whole in [SOFTMAX, ATTENTION, OPTIONS] {
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

/// Kernels of one's own in an attention task: their tensors follow from the other parts of the file, which alone are hashed.
#[test]
fn own_attention_kernels_take_the_tensors_of_the_task() {
    let text = include_str!("../tests/data/own-attention.toml");
    let task = Task::parse(text).unwrap();
    let names: Vec<&str> = task.data.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["q", "k", "v", "q_scale", "k_scale", "v_scale"]);
    assert_eq!(task.data.outputs[0].name.value, "o");
    assert!(task.data.is_implied());
    let stated = serde_json::to_value(&task.data).unwrap();
    assert_eq!((&stated["inputs"], &stated["outputs"]), (&serde_json::json!([]), &serde_json::json!([])));
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Task::parse(&text.replace(from, to))
    };
    let rows = with("scales = \"head\"", "scales = \"row\"\nsinks = true").unwrap();
    assert_ne!(rows.part_hash(Part::Reference), task.part_hash(Part::Reference));
    assert_eq!(rows.data.inputs[3].dims.len(), 3);
    assert_eq!(rows.data.inputs[6].name.value, "sinks");
    for (from, to, sentence) in [
        ("\"o\",", "\"q\",", "has no argument for output `o`"),
        ("\"v_scale\", \"o\"", "\"v_scales\", \"o\"", "no input, output or scratch memory `v_scales`"),
        (
            "accumulate = \"tensor_f16\"",
            "accumulate = \"f16\"",
            "derived for sums in f32, tensor_f16 or tensor_fp8",
        ),
        (
            "axes = { b = 2, h = 8, s = 256, d = 64 }",
            "axes = { b = 2, h = 8, s = 256, d = 64 }\nseqlens_q = [256, 3]",
            "only rungs of the ladder support",
        ),
        ("axes = { b = 2, h = 8,", "axes = { b = 2, kv = 8, h = 8,", "has no axis `kv`"),
        (
            "[reference]",
            "[[input]]\nname = \"x\"\ndtype = \"f32\"\ndims = [\"s\"]\n\n[reference]",
            "built-in inputs",
        ),
    ] {
        let problems = with(from, to).unwrap_err();
        let all: Vec<&str> = problems.iter().map(|problem| problem.sentence.as_str()).collect();
        assert!(all.iter().any(|one| one.contains(sentence)), "{sentence}: {all:?}");
    }
}
