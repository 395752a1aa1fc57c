//! Tests of the real compiler.

use std::fs;

use warpproof_toolchain::{
    AssembleError, CompileError, CompileOptions, Options, Part, Severity, Source, Toolchain,
    WITHOUT_TOOLCHAIN, ptx_version,
};

/// Every installed release; each one is tested.
fn toolchains() -> Vec<Toolchain> {
    let found: Vec<Toolchain> = [12, 13]
        .into_iter()
        .filter_map(|major| {
            let options = Options { no_cache: true, ..Options::from_env().with_cuda(major) };
            Toolchain::find(&options).ok()
        })
        .collect();
    assert!(!found.is_empty(), "no CUDA toolchain found\n{WITHOUT_TOOLCHAIN}");
    found
}

const KERNEL: &str = "extern \"C\" __global__ void one(int *x) { *x = threadIdx.x; }\n";

#[test]
fn toolchain_compiles_assembles_and_disassembles() {
    for toolchain in toolchains() {
        for arch in ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"] {
            let compiled =
                toolchain.compile(&Source::new("one.cu", KERNEL), &CompileOptions::new(arch)).unwrap();
            assert!(compiled.ptx.contains(&format!(".target {arch}")) && compiled.ptx.contains(".loc"));
            let assembled = toolchain.ptxas(&compiled.ptx, arch, &["-lineinfo"]).unwrap();
            assert_eq!(assembled.resources.len(), 1);
            assert_eq!(assembled.resources[0].kernel, "one");
            assert!(assembled.resources[0].registers > 0 && assembled.resources[0].constant_bytes() > 0);
            assert!(toolchain.sass(&assembled.cubin).unwrap().contains("EXIT"), "{arch}");
            assert!(toolchain.encoded_sass(&assembled.cubin).unwrap().contains("/* 0x"), "{arch}");
        }
    }
}

#[test]
fn toolchain_cudas_own_headers_are_found() {
    let text = "#include <cuda_fp8.h>\n#include <cuda_bf16.h>\n#include <mma.h>\n#include <cooperative_groups.h>\n\
                #include <cuda/pipeline>\n__global__ void k(__nv_fp8_e4m3 *x) { *x = __nv_fp8_e4m3(1.0f);\n\
                cooperative_groups::this_thread_block().sync(); }\n";
    for toolchain in toolchains() {
        let compiled = toolchain.compile(&Source::new("k.cu", text), &CompileOptions::new("sm_89")).unwrap();
        assert!(compiled.ptx.contains(".entry"));
    }
}

#[test]
fn toolchain_debug_builds_assemble() {
    for toolchain in toolchains() {
        let options = CompileOptions { debug: true, ..CompileOptions::new("sm_89") };
        let compiled = toolchain.compile(&Source::new("one.cu", KERNEL), &options).unwrap();
        assert!(compiled.ptx.contains(".debug_info"));
        toolchain.ptxas(&compiled.ptx, "sm_89", &["-g"]).unwrap();
    }
}

#[test]
fn toolchain_errors_of_source_options_and_module_are_told_apart() {
    for toolchain in toolchains() {
        let compile = |text: &str, options: &CompileOptions| {
            toolchain.compile(&Source::new("k.cu", text), options).unwrap_err()
        };
        let options = CompileOptions::new("sm_89");
        let CompileError::Source { diagnostics, .. } =
            compile("__global__ void k(int *x) { *x = y;\n*x = zz; }\n", &options)
        else {
            panic!("expected a source error")
        };
        let errors: Vec<_> = diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
        assert_eq!(errors.len(), 2);
        assert_eq!(errors[1].place.as_ref().map(|p| (p.line, p.column)), Some((2, Some(6))));
        let bad = CompileOptions { extra: vec!["--frobnicate".into()], ..options.clone() };
        assert!(matches!(compile(KERNEL, &bad), CompileError::Options(_)), "{}", compile(KERNEL, &bad));
        assert!(matches!(compile(KERNEL, &CompileOptions::new("sm_1")), CompileError::Options(_)));
        assert!(matches!(compile("\0", &options), CompileError::Nvrtc(_)));
        let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nbogus;\nret;\n}\n";
        let Err(AssembleError::Rejected { diagnostics, .. }) = toolchain.ptxas(ptx, "sm_80", &[]) else {
            panic!("expected a rejected module")
        };
        assert_eq!(diagnostics[0].place.as_ref().map(|p| p.line), Some(6));
    }
}

#[test]
fn toolchain_a_module_gets_a_ptxas_that_is_new_enough() {
    let found = toolchains();
    let newest = found.last().unwrap();
    let compiled = newest.compile(&Source::new("one.cu", KERNEL), &CompileOptions::new("sm_89")).unwrap();
    assert!(ptx_version(&compiled.ptx).is_some());
    // Whichever release is preferred, the newest module gets a matching assembler.
    let all = Toolchain::partial(&Options { no_cache: true, ..Options::from_env() });
    let ptxas = all.ptxas_for(&compiled.ptx).unwrap();
    assert!(ptxas.version.release() >= newest.part(Part::Nvrtc).unwrap().version.release());
    all.ptxas(&compiled.ptx, "sm_89", &[]).unwrap();
}

#[test]
fn toolchain_threads_share_one_nvrtc_and_deep_templates_do_not_end_the_process() {
    let deep = "template <int N> struct S { enum { v = S<N - 1>::v + 1 }; };\ntemplate <> struct S<0> { enum { v = 0 }; };\n\
                __global__ void k(int *x) { *x = S<190>::v; }\n";
    for toolchain in toolchains() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let options = CompileOptions::new("sm_89");
                    toolchain.compile(&Source::new("deep.cu", deep), &options).unwrap();
                });
            }
        });
    }
}

/// NVRTC remembers `-G` for the life of a process: the next program would pass its parameters differently.
#[test]
fn toolchain_no_compilation_changes_a_later_one() {
    let text = "struct Params { const float *in; float *out; unsigned rows[8]; };\n\
                extern \"C\" __global__ void k(const __grid_constant__ Params p) {\n\
                const Params *q = &p; q->out[threadIdx.x] = q->in[threadIdx.x] + q->rows[threadIdx.x & 7]; }\n";
    let source = Source::new("k.cu", text);
    let optimized = CompileOptions::new("sm_89");
    let debug = CompileOptions { debug: true, ..optimized.clone() };
    for toolchain in toolchains() {
        let compile = |options| toolchain.compile(&source, options).unwrap().ptx;
        let before = compile(&optimized);
        let debugged = compile(&debug);
        assert_ne!(before, debugged);
        assert_eq!(before, compile(&optimized));
        // Concurrent compilations do not affect each other either.
        std::thread::scope(|scope| {
            let others = scope.spawn(|| (0..8).for_each(|_| assert_eq!(debugged, compile(&debug))));
            (0..8).for_each(|_| assert_eq!(before, compile(&optimized)));
            others.join().unwrap();
        });
    }
}

#[test]
fn toolchain_headers_beside_the_source_are_found_and_followed_by_the_cache() {
    if toolchains().is_empty() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::from_env();
    let toolchain_place = options.environment.cache.clone();
    options.explicit = toolchain_place.map(|cache| cache.join("toolchain")).and_then(|sets| {
        let mut sets: Vec<_> = fs::read_dir(sets).ok()?.flatten().map(|entry| entry.path()).collect();
        sets.retain(|path| path.join("nvidia").is_dir());
        sets.sort();
        sets.into_iter().next()
    });
    options.environment.cache = Some(dir.path().join("cache"));
    let toolchain = Toolchain::find(&options).unwrap();
    fs::write(dir.path().join("n.h"), "#define N 1\n").unwrap();
    fs::write(dir.path().join("k.cu"), "#include \"n.h\"\n__global__ void k(int *x) { *x = N; }\n").unwrap();
    let source = Source::read(&dir.path().join("k.cu")).unwrap();
    let compile = || toolchain.compile(&source, &CompileOptions::new("sm_89")).unwrap();
    let first = compile();
    let second = compile();
    assert!(!first.cached && second.cached);
    assert_eq!(first.ptx, second.ptx);
    fs::write(dir.path().join("n.h"), "#define N 7\n").unwrap();
    let third = compile();
    assert!(!third.cached);
    assert_ne!(third.ptx, first.ptx);
}

#[test]
fn toolchain_instances_of_templates_are_made_for_their_spelling() {
    let text = "namespace a { template <int N> __global__ void k(int *x) { *x = N; } }\n\
                template <int N> __global__ void bad(int *x) { *x = M; }\n";
    for toolchain in toolchains() {
        let compile = |kernels: &[&str]| {
            let kernels = kernels.iter().map(|kernel| (*kernel).to_owned()).collect();
            let options = CompileOptions { kernels, ..CompileOptions::new("sm_89") };
            toolchain.compile(&Source::new("k.cu", text), &options)
        };
        let kernels = |ptx: &str| -> Vec<String> {
            let entries = ptx.lines().filter_map(|line| line.split_once(".entry "));
            entries.map(|(_, rest)| rest.trim_end_matches('(').to_owned()).collect()
        };
        assert_eq!(kernels(&compile(&[]).unwrap().ptx), Vec::<String>::new());
        let two = compile(&["a::k<3>", "a::k< 4 >", "a::k<3>"]).unwrap();
        let all = kernels(&two.ptx);
        assert_eq!(all.len(), 2, "{all:?}");
        for (spelling, symbol) in [("a::k<3>", "_ZN1a1kILi3EEEvPi"), ("a::k< 4 >", "_ZN1a1kILi4EEEvPi")] {
            assert_eq!(two.instances.find(&all, spelling).map(String::as_str), Ok(symbol));
        }
        // An invalid name does not affect the others.
        let one = compile(&["a::k<3>", "a::none<3>"]).unwrap();
        assert_eq!(kernels(&one.ptx), ["_ZN1a1kILi3EEEvPi"]);
        let why = one.instances.why_not("a::none<3>", text).unwrap();
        assert!(why.contains("the compiler cannot instantiate `a::none<3>`"), "{why}");
        // An error in the body of a template is an error of the source.
        let error = compile(&["bad<3>"]).unwrap_err();
        assert!(
            matches!(&error, CompileError::Source { log, .. } if log.contains("\"M\" is undefined")),
            "{error}"
        );
    }
}

#[test]
fn toolchain_instances_have_entries_of_their_own_in_the_cache() {
    if toolchains().is_empty() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let found = Options::from_env();
    let set = found.environment.cache.clone().map(|cache| cache.join("toolchain"));
    let mut options = Options::from_env();
    options.environment.cache = Some(dir.path().join("cache"));
    #[cfg(unix)]
    if let Some(set) = set.filter(|set| set.is_dir()) {
        fs::create_dir_all(dir.path().join("cache")).unwrap();
        std::os::unix::fs::symlink(fs::canonicalize(set).unwrap(), dir.path().join("cache/toolchain"))
            .unwrap();
    }
    let toolchain = Toolchain::find(&options).unwrap();
    let source = Source::new("k.cu", "template <int N> __global__ void k(int *x) { *x = N; }");
    let compile = |kernel: &str| {
        let options = CompileOptions { kernels: vec![kernel.to_owned()], ..CompileOptions::new("sm_89") };
        toolchain.compile(&source, &options).unwrap()
    };
    let (three, four, again) = (compile("k<3>"), compile("k<4>"), compile("k<3>"));
    assert!(!three.cached && !four.cached && again.cached);
    assert_ne!(three.ptx, four.ptx);
    assert_eq!((&three.ptx, &three.instances), (&again.ptx, &again.instances));
}
