//! Invalid input of a caller is rejected with a reason, and bugs of a kernel are detected.
#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[expect(dead_code, reason = "used by other tests")]
mod study;

use std::fmt;

use study::{l4, lengths, toolchain};
use warpproof_kernels::attention::{Addresses, Answer, Attention, RunError, Workspace};
use warpproof_kernels::format::Format;
use warpproof_kernels::inputs::{Distribution, Inputs, generate};
use warpproof_kernels::plan::{Plan, Request, Splits};
use warpproof_kernels::problem::{Layout, Lengths, Mask, Shape};
use warpproof_launch::{Checking, Geometry, Gpu, Use};
use warpproof_toolchain::{CompileOptions, Source, Toolchain};

fn shape(sequences: Vec<Lengths>) -> Shape {
    Shape { heads: 4, kv_heads: 2, dim: 64, sequences }
}

/// A device that only counts calls, and may fail at one of them.
#[derive(Default)]
struct Counting {
    held: Vec<usize>,
    allocated: usize,
    fails_at: Option<&'static str>,
    filled: Vec<(String, bool)>,
    names: Vec<String>,
}

#[derive(Debug)]
struct Failure(&'static str);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Failure {}

impl Counting {
    fn at(&self, call: &'static str) -> Result<(), Failure> {
        if self.fails_at == Some(call) { Err(Failure(call)) } else { Ok(()) }
    }
}

impl Gpu for Counting {
    type Memory = (usize, usize);
    type Module = ();
    type Error = Failure;

    fn load(&mut self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn allocate(&mut self, name: &str, bytes: usize, _: Use) -> Result<(usize, usize), Failure> {
        if name == "o" {
            self.at("allocate o")?;
        }
        self.allocated += 1;
        self.held.push(self.allocated);
        self.names.push(name.to_owned());
        Ok((self.allocated, bytes))
    }

    fn free(&mut self, memory: (usize, usize)) -> Result<(), Failure> {
        self.held.retain(|held| *held != memory.0);
        self.at("free")
    }

    fn address(&self, memory: &(usize, usize)) -> u64 {
        u64::try_from(memory.0 * 256).unwrap()
    }

    fn write(&mut self, memory: &(usize, usize), bytes: &[u8]) -> Result<(), Failure> {
        self.at("write")?;
        let name = self.names[memory.0 - 1].clone();
        self.filled.push((name, bytes.len() == memory.1 && bytes.iter().all(|byte| *byte == 0xff)));
        Ok(())
    }

    fn read(&mut self, memory: &(usize, usize)) -> Result<Vec<u8>, Failure> {
        self.at("read")?;
        Ok(vec![0; memory.1])
    }

    fn launch(&mut self, (): &(), _: &str, _: Geometry, _: &[u8]) -> Result<(), Failure> {
        self.at("launch")
    }
}

fn decode_request() -> Request {
    Request { splits: Splits::Count(2), lse: true, ..Request::new(shape(vec![lengths(1, 200)])) }
}

fn on_nothing(request: &Request, gpu: &mut Counting) -> Result<Answer, RunError<Failure>> {
    let attention = Attention::load(Plan::new(request, l4()).unwrap(), "", gpu).unwrap();
    let inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
    attention.run(gpu, &inputs.q, &inputs.k, &inputs.v)
}

#[test]
fn memory_is_given_back_and_the_first_error_is_told() {
    for call in ["write", "allocate o", "launch", "read", "free"] {
        let mut gpu = Counting { fails_at: Some(call), ..Counting::default() };
        let error = on_nothing(&decode_request(), &mut gpu).unwrap_err();
        assert_eq!(error.to_string(), call);
        assert!(gpu.allocated > 0 && gpu.held.is_empty(), "{call}: {:?}", gpu.held);
    }
    let mut gpu = Counting::default();
    on_nothing(&decode_request(), &mut gpu).unwrap();
    assert!(gpu.held.is_empty());
}

#[test]
fn what_is_no_input_begins_as_nan() {
    let mut gpu = Counting::default();
    on_nothing(&decode_request(), &mut gpu).unwrap();
    for name in ["workspace", "lse", "o"] {
        assert!(gpu.filled.contains(&(name.to_owned(), true)), "{name}");
    }
}

#[test]
fn addresses_that_are_not_aligned_are_refused() {
    let request = decode_request();
    let mut gpu = Counting::default();
    let attention = Attention::load(Plan::new(&request, l4()).unwrap(), "", &mut gpu).unwrap();
    let refused = |gpu: &mut Counting, at: Addresses| {
        attention.launch(gpu, &at, &mut Workspace::default()).unwrap_err().to_string()
    };
    assert!(attention.launch(&mut gpu, &Addresses::default(), &mut Workspace::default()).is_ok());
    let odd = attention.launch(&mut gpu, &Addresses::default(), &mut Workspace::new(0x104)).unwrap_err();
    assert_eq!(odd.to_string(), "the workspace at 0x104 is not aligned to 16 bytes");
    let at = Addresses { k: (0x108, 0x104), ..Addresses::default() };
    assert_eq!(refused(&mut gpu, at), "K at 0x108 is not aligned to 16 bytes");
    let at = Addresses { v: (0x110, 0x106), ..Addresses::default() };
    assert_eq!(refused(&mut gpu, at), "the scales of V at 0x106 is not aligned to 4 bytes");
}

#[test]
fn codes_that_are_no_numbers_are_refused_by_place() {
    for (format, code) in [(Format::E4m3, 0x7f), (Format::E5m2, 0x7c), (Format::E5m2, 0xff)] {
        let request = Request { format, ..Request::new(shape(vec![lengths(6, 4)])) };
        let mut inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
        inputs.v.codes[131] = code;
        let mut gpu = Counting::default();
        let attention = Attention::load(Plan::new(&request, l4()).unwrap(), "", &mut gpu).unwrap();
        let error = attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v).unwrap_err().to_string();
        assert_eq!(error, format!("element 131 of V is {code:#04x}, which is not a finite {format} value"));
        assert_eq!(gpu.allocated, 0);
    }
}

#[test]
fn an_answer_without_the_log_sum_exp_that_was_asked_for_fails() {
    let request = Request { lse: true, ..Request::new(shape(vec![lengths(5, 7)])) };
    let plan = Plan::new(&request, l4()).unwrap();
    let inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
    let oracles = plan.oracles(&inputs).unwrap();
    let mut answer = Answer { output: oracles.bits.output.clone(), lse: Some(oracles.bits.lse.clone()) };
    assert!(oracles.judge(&answer).passed());
    answer.lse = None;
    let verdict = oracles.judge(&answer);
    assert_eq!((verdict.passed(), verdict.other_lse_bits, verdict.lse_outside), (false, 20, 20));
}

/// The plan's PTX with a bug inserted in its source.
fn mistaken(plan: &Plan, toolchain: &Toolchain, right: &str, wrong: &str) -> String {
    let text = warpproof_kernels::source::expanded(plan.fit.source).unwrap();
    assert_eq!(text.matches(right).count(), 1, "the replaced text must occur exactly once");
    let source = Source::new("n4.cu", text.replace(right, wrong));
    let options = CompileOptions {
        defines: plan.defines.clone(),
        std: Some("c++17".to_owned()),
        ..CompileOptions::new(plan.arch.as_str())
    };
    toolchain.compile(&source, &options).unwrap().ptx
}

/// The number of findings, and whether the verdict passes, for `attention` that stores its sums only under a
/// condition.
fn storing_if(condition: &str, request: &Request) -> (usize, bool) {
    let request = &Request { rung: Some("n4".to_owned()), ..request.clone() };
    let plan = Plan::new(request, l4()).unwrap();
    assert!(plan.is_split());
    let right = "    if (SPLIT)\n        store_partial(";
    let ptx = mistaken(
        &plan,
        toolchain(),
        right,
        &format!("    if (SPLIT && !({condition}))\n        return;\n{right}"),
    );
    let mut gpu = Checking::new(warpproof_sim::Device::new(), 2);
    let attention = Attention::load(plan, &ptx, &mut gpu).unwrap();
    let inputs @ Inputs { q, k, v, .. } = &generate(&request.shape, Distribution::Normal, 0, request.spec());
    let answer = attention.run(&mut gpu, q, k, v).unwrap();
    let verdict = attention.plan().oracles(inputs).unwrap().judge(&answer);
    (gpu.findings.len(), verdict.passed())
}

#[test]
fn toolchain_sums_that_a_split_does_not_write_are_told() {
    // Blocks without keys store nothing. With equal lengths, such a block exists only if there are no keys at
    // all.
    let equal = Request {
        splits: Splits::Count(2),
        lse: true,
        mask: Mask::Causal,
        ..Request::new(shape(vec![lengths(1, 0)]))
    };
    let packed = Request {
        layout: Layout::Bshd,
        lse: true,
        ..Request::new(shape(vec![lengths(1, 300), lengths(2, 30)]))
    };
    assert_eq!(storing_if("true", &packed), (0, true));
    assert_eq!(storing_if("true", &equal), (0, true));
    let (findings, passed) = storing_if("first_key < end_key", &equal);
    assert!(findings > 0 && !passed);
    // If lengths differ, memory beyond the end of a sequence may stay unwritten; the verdict still fails.
    let (_, passed) = storing_if("first_key < end_key", &packed);
    assert!(!passed);
    // A whole split that stores nothing, then a whole head.
    let split = decode_request();
    for condition in ["work.split == 0", "work.head == 0"] {
        let (findings, passed) = storing_if(condition, &split);
        assert!(findings > 0 && !passed, "{condition}");
    }
}
