//! NVRTC's kernels: `corpus/cuda/*.cu` for sm_89.
//!
//! A source's test names a check for each kernel; it fails if a `//@launch:` line has none, and a further test fails if
//! a source has no test.

mod arrays;
mod collectives;
mod control;
mod formats;
mod integers;
mod library;
mod matrix;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use cpp_demangle::{DemangleOptions, Symbol};
use warpproof_check::Role;
use warpproof_sim::{Blame, Device, StopKind};
use warpproof_toolchain::{CompileOptions, Options, Source, Toolchain, WITHOUT_TOOLCHAIN};

use crate::data::{Data, Type};
use crate::launch::{Argument, Case, Host, Launched};
use crate::reference::close;

/// The check of a kernel's results.
type Check = (&'static str, fn(&Launched<'_>));

macro_rules! sources {
    ($($module:ident: $($source:ident)*;)*) => {
        mod toolchain {
            $($(
                #[test]
                fn $source() {
                    super::check_source(stringify!($source), &super::$module::$source());
                }
            )*)*
        }
        const TESTED: &[(&str, fn() -> Vec<Check>)] = &[$($((stringify!($source), $module::$source)),*),*];
    };
}

sources! {
    arrays: reduction scan histogram transpose softmax layer_norm vector_loads dynamic_shared globals local_arrays
        templates launch_bounds pipeline_primitives pipeline_cuda;
    collectives: cooperative_groups atomics atomic_ref barriers named_barriers warp_votes redux;
    control: device_functions virtual_calls function_pointers printf_output assertions divergence switch_table
        inline_ptx;
    formats: half_arith bf16_arith fp8_convert;
    integers: bit_operations wide_arith;
    library: math_library;
    matrix: sgemm_tiled wmma_f16 wmma_types wmma_subbyte mma_sync mma_fp8 gemm_cp_async;
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus/cuda")
}

/// Every installed release; each of them is tested.
fn toolchains() -> &'static [Toolchain] {
    static FOUND: OnceLock<Vec<Toolchain>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let find = |major| Toolchain::find(&Options::from_env().with_cuda(major)).ok();
        let found: Vec<Toolchain> = [12, 13].into_iter().filter_map(find).collect();
        assert!(!found.is_empty(), "no CUDA toolchain found\n{WITHOUT_TOOLCHAIN}");
        found
    })
}

/// A source of the corpus and its `//@` lines.
struct CorpusSource {
    name: String,
    text: String,
}

impl CorpusSource {
    fn read(name: &str) -> CorpusSource {
        let text = fs::read_to_string(corpus().join(format!("{name}.cu"))).unwrap();
        CorpusSource { name: name.to_owned(), text }
    }

    fn lines(&self, key: &str) -> Vec<&str> {
        let prefix = format!("//@{key}:");
        self.text.lines().filter_map(|line| line.strip_prefix(&prefix).map(str::trim)).collect()
    }

    fn is_for(&self, arch: u32) -> bool {
        self.lines("arch").join(" ").split_whitespace().any(|word| match word.strip_suffix('+') {
            Some(least) => least.parse::<u32>().unwrap() <= arch,
            None => word == arch.to_string(),
        })
    }

    fn cases(&self) -> Vec<Case> {
        self.lines("launch").into_iter().map(Case::parse).collect()
    }

    fn compile(&self, toolchain: &Toolchain, arch: u32, debug: bool) -> String {
        let extra = self.lines("options").join(" ").split_whitespace().map(str::to_owned).collect();
        let options = CompileOptions { extra, debug, ..CompileOptions::new(format!("sm_{arch}")) };
        let source = Source::new(format!("{}.cu", self.name), self.text.clone());
        let compiled = toolchain.compile(&source, &options);
        compiled.unwrap_or_else(|error| panic!("{}: {error}", self.name)).ptx
    }
}

/// The symbol of a kernel that the source calls `name`.
fn symbol(ptx: &str, name: &str) -> String {
    let module = Device::new().load(ptx).unwrap_or_else(|stop| panic!("{name}: {stop}"));
    let options = DemangleOptions::new().no_params().no_return_type();
    let called = |symbol: &String| {
        let demangled =
            Symbol::new(symbol).ok().and_then(|parsed| parsed.demangle_with_options(&options).ok());
        symbol == name || (symbol.starts_with("_Z") && demangled.as_deref() == Some(name))
    };
    module
        .kernels()
        .iter()
        .find(|symbol| called(symbol))
        .unwrap_or_else(|| panic!("no kernel {name}"))
        .clone()
}

/// How many launches are tested for sm_89.
pub(crate) fn launches() -> usize {
    TESTED.iter().map(|(name, _)| CorpusSource::read(name).cases().len()).sum()
}

fn check_source(name: &str, checks: &[Check]) {
    let source = CorpusSource::read(name);
    let cases = source.cases();
    for (kernel, _) in checks {
        assert!(
            cases.iter().any(|case| case.kernel == *kernel),
            "no launch line of {name} launches {kernel}"
        );
    }
    for toolchain in toolchains() {
        let ptx = source.compile(toolchain, 89, false);
        for case in &cases {
            let check = checks.iter().find(|(kernel, _)| *kernel == case.kernel);
            let (_, check) = check.unwrap_or_else(|| panic!("no check for {} of {name}", case.kernel));
            case.check(&ptx, &symbol(&ptx, &case.kernel), check);
        }
    }
}

/// Launches every kernel once, compiled with other options.
fn check_otherwise(arch: u32, debug: bool) {
    for toolchain in toolchains() {
        for (name, checks) in TESTED {
            let source = CorpusSource::read(name);
            if !source.is_for(arch) || (debug && !source.lines("not").is_empty()) {
                continue;
            }
            let ptx = source.compile(toolchain, arch, debug);
            for case in &source.cases() {
                let checks = checks();
                let (_, check) = checks.iter().find(|(kernel, _)| *kernel == case.kernel).unwrap();
                let effects = case.run(&ptx, &symbol(&ptx, &case.kernel), Host::PLAIN);
                let effects = effects.unwrap_or_else(|stop| panic!("{name}, {}: {stop}", case.kernel));
                check(&Launched { case, effects });
            }
        }
    }
}

/// Compiled for the debugger: all variables are in local memory and nothing is inlined.
#[test]
fn toolchain_debug_builds_compute_the_same() {
    check_otherwise(89, true);
}

/// Without cp.async, mbarrier, bfloat16 and FP8 instructions: CUDA's headers emulate them.
#[test]
fn toolchain_kernels_for_sm_75_compute_the_same() {
    check_otherwise(75, false);
}

/// FP8 conversions are emulated with integer instructions.
#[test]
fn toolchain_kernels_for_sm_80_compute_the_same() {
    check_otherwise(80, false);
}

#[test]
fn every_source_with_launches_is_tested() {
    for entry in fs::read_dir(corpus()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let source = CorpusSource::read(&name);
        if source.is_for(89) && !source.cases().is_empty() {
            assert!(
                TESTED.iter().any(|(tested, _)| *tested == name),
                "corpus/cuda/{name}.cu has launches for sm_89, and no test"
            );
        }
    }
}

/// Parameters by value, which `//@launch:` lines cannot write: sixteen scales, an offset, three bytes and a double.
#[test]
fn toolchain_structs_are_passed_by_value() {
    let mut params: Vec<u8> = (0..16).flat_map(|i| (0.5f32 * i as f32 - 3.0).to_le_bytes()).collect();
    params.extend(7.25f32.to_le_bytes());
    params.resize(80, 0);
    let array = |name: &str, data, role| Argument { name: name.to_owned(), data, scalar: false, role };
    for kernel in ["by_value", "constant"] {
        let p = Argument {
            name: "p".to_owned(),
            data: Data { ty: Type::U8, bytes: params.clone() },
            scalar: true,
            role: Role::In,
        };
        let input = Data::of_floats(Type::F32, (0..64).map(|i| f64::from(i) / 8.0));
        let case = Case {
            kernel: kernel.to_owned(),
            grid: [1; 3],
            block: [64, 1, 1],
            shared: 0,
            arguments: vec![
                p,
                array("in", input, Role::In),
                array("out", Data::unwritten(Type::F32, 64), Role::Out),
            ],
        };
        for toolchain in toolchains() {
            let ptx = CorpusSource::read("launch_bounds").compile(toolchain, 89, false);
            // Few significant bits: every product and sum is exact.
            case.check(&ptx, kernel, |run| {
                let wanted = run.floats("in").into_iter().enumerate();
                close(run, "out", wanted.map(|(i, x)| ((0.5 * (i % 16) as f64 - 3.0) * x + 7.25, 0.0)));
            });
        }
    }
}

#[test]
fn toolchain_a_failed_assertion_and_a_trap_stop_the_launch() {
    for toolchain in toolchains() {
        let source = CorpusSource::read("assertions");
        let ptx = source.compile(toolchain, 89, false);
        let [mut sqrt, mut trap] = <[Case; 2]>::try_from(source.cases()).unwrap();
        sqrt.arguments[0].data =
            Data::of_floats(Type::F32, (0..64).map(|i| if i == 37 { -1.0 } else { 1.0 }));
        let stop = sqrt.run(&ptx, "checked_sqrt", Host::PLAIN).unwrap_err();
        assert_eq!((stop.blame, stop.kind, stop.thread), (Blame::Kernel, StopKind::Trap, Some([37, 0, 0])));
        assert!(stop.to_string().contains("square root of a negative number"), "{stop}");
        assert!(stop.to_string().contains("assertions.cu"), "{stop}");

        trap.arguments[0].data = Data::of_values(Type::I32, (0..32).map(|i| f64::from(5 - i)));
        let stop = trap.run(&ptx, "trap_on_zero", Host::PLAIN).unwrap_err();
        assert_eq!((stop.blame, stop.kind, stop.thread), (Blame::Kernel, StopKind::Trap, Some([5, 0, 0])));
    }
}
