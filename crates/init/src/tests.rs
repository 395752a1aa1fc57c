use proptest::prelude::*;

use super::*;
use warpproof_task::Task;
use warpproof_task::dtype::Dtype;

const SCALE: &str = "
.version 8.4
.target sm_89
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry scale(.param .u64 scale_param_0, .param .u64 scale_param_1, .param .u32 scale_param_2, .param .f32 scale_param_3)
.maxntid 256, 1, 1
{
    .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [scale_param_0];
    ld.param.u64 %rd2, [scale_param_1];
    ld.param.u32 %r2, [scale_param_2];
    ld.param.f32 %f1, [scale_param_3];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra END;
    cvta.to.global.u64 %rd3, %rd1;
    mul.wide.s32 %rd4, %r1, 4;
    add.s64 %rd5, %rd3, %rd4;
    ld.global.f32 %f2, [%rd5];
    mul.f32 %f3, %f1, %f2;
    cvta.to.global.u64 %rd6, %rd2;
    add.s64 %rd7, %rd6, %rd4;
    st.global.f32 [%rd7], %f3;
END:
    ret;
}
";

#[test]
fn the_ptx_tells_what_is_read_and_written() {
    let (traffic, geometry) = look(SCALE, "scale").unwrap();
    let access = |at: usize| (traffic[at].access.read, traffic[at].access.written, traffic[at].ty.as_deref());
    assert_eq!(access(0), (true, false, Some("f32")));
    assert_eq!(access(1), (false, true, Some("f32")));
    assert_eq!((access(2), traffic[2].bytes, traffic[3].declared.as_str()), ((false, false, None), 4, "f32"));
    assert_eq!((geometry.shares, geometry.bound), ([Share::Thread, Share::Whole], Some([256, 1, 1])));
    assert!(geometry.dynamic_shared && !geometry.two_dimensional && !geometry.strides);
    assert_eq!(look(SCALE, "other"), None);
    // Without a source, names are generated and types come from the accesses.
    let all = Parameter::all(&traffic, None, None, None);
    let names: Vec<&str> = all.iter().map(|parameter| parameter.name.as_str()).collect();
    assert_eq!(names, ["in1", "out2", "n2", "value3"]);
    assert_eq!((&all[2].what, &all[3].what), (&What::Scalar(Dtype::U32), &What::Scalar(Dtype::F32)));
}

#[test]
fn the_source_tells_names_and_types() {
    let text = "// __global__ void k(int wrong)\n#define THREADS 96 /* of a block */\n\
        template <typename T> __global__ void __launch_bounds__(96, 2)\n\
        k(const T* __restrict__ in, T out[], unsigned int n = 4, Pair<int, int> pair)\n{ f(in); }\n\
        template __global__ void k<float>(const float*, float*, unsigned, Pair<int, int>);\n";
    let all = declared(text, "ns::k<float>").unwrap();
    let shown: Vec<String> = all.iter().map(|one| format!("{}|{}", one.ty, one.name)).collect();
    assert_eq!(shown, ["const T* __restrict__|in", "T*|out", "unsigned int|n", "Pair<int, int>|pair"]);
    assert_eq!(declared(text, "other"), None);
    assert_eq!(source::block_constant(text), Some(("THREADS", 96)));
    assert_eq!(source::block_constant("constexpr int kThreads = 64; // THREADS 3"), Some(("kThreads", 64)));
    assert_eq!(source::block_constant("int MY_THREADS = 64; THREADS == 3"), None);
}

#[test]
fn block_sizes_come_from_the_surest_source() {
    let flat = Geometry::default();
    let square = Geometry { two_dimensional: true, ..Geometry::default() };
    let extents =
        |stated, bound, geometry: &Geometry, text: &str| block(stated, bound, geometry, text, "k").extents;
    assert_eq!(extents(Some([8, 4, 1]), Some([64, 1, 1]), &flat, "#define THREADS 96"), [8, 4]);
    assert_eq!(extents(None, Some([64, 1, 1]), &flat, "#define THREADS 96"), [64]);
    assert_eq!(extents(None, Some([256, 1, 1]), &square, ""), [16, 16]);
    assert_eq!(extents(None, Some([128, 1, 1]), &square, ""), [32, 4]);
    assert_eq!(extents(None, None, &flat, "#define THREADS 96"), [96]);
    assert_eq!(extents(None, None, &square, "#define TILE 32"), [32, 32]);
    assert_eq!(extents(None, None, &flat, ""), [128]);
    assert_eq!(extents(None, None, &square, ""), [16, 16]);
}

#[test]
fn a_kernels_own_lines_tell_its_block() {
    let flat = Geometry::default();
    let of = |text: &str, name: &str| {
        let block = block(None, None, &flat, text, name);
        (block.extents[0], block.evidence)
    };
    let kernel = |body: &str| format!("#define SIDE 96\n__global__ void k(float* x, int n) {{ {body} }}");
    for (body, threads) in [
        ("int i = blockIdx.x * 256 + threadIdx.x; x[i] = 0;", 256),
        ("int i = threadIdx.x + 256u * blockIdx.x; x[i] = 0;", 256),
        ("const int tid = threadIdx.x; x[blockIdx.x * SIDE + tid] = 0;", 96),
        ("for (int i = threadIdx.x; i < n; i += 64) x[i] = 0;", 64),
        ("int t = threadIdx.x; for (int i = t; i < n; i += SIDE) { x[blockIdx.x * 1024 + i] = 0; }", 96),
    ] {
        assert_eq!(of(&kernel(body), "k"), (threads, true), "{body}");
    }
    // A tile with several elements per thread, a stride over all blocks, and another kernel's lines give no
    // information.
    for body in [
        "x[blockIdx.x * 256 + threadIdx.x * 4] = 0;",
        "x[blockIdx.x * 2048 + threadIdx.x] = 0;",
        "x[blockIdx.x * n + threadIdx.x] = 0;",
        "for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 0;",
    ] {
        assert_eq!(of(&kernel(body), "k"), (128, false), "{body}");
    }
    assert_eq!(of(&kernel("x[blockIdx.x * 256 + threadIdx.x] = 0;"), "other"), (128, false));
    let template = "template <typename T, int B = 32>\n__global__ void k(T* x, int n)\n\
        { for (int i = threadIdx.x; i < n; i += B) x[i] = 0; }";
    assert_eq!(of(template, "k<float, 64>"), (64, true));
    assert_eq!(of(template, "k<float, (int)64>"), (64, true));
    assert_eq!(of(template, "k<float>"), (128, false));
    let tiled = SCALE
        .replace("mad.lo.s32 %r1, %r3, %r4, %r5;", "shl.b32 %r4, %r3, 6; add.s32 %r1, %r4, %r5;")
        .replace(".maxntid 256, 1, 1", "");
    let (_, geometry) = look(&tiled, "scale").unwrap();
    assert_eq!((geometry.shares[0], geometry.tile_of_threads), (Share::Tile(64), Some(64)));
    assert_eq!(block(None, None, &geometry, "", "scale").extents, [64]);
}

fn target(operator: Option<Kind>) -> Target<'static> {
    Target {
        file: "k.cu",
        stem: Some("k"),
        name: "k",
        is_ptx: false,
        operator,
        refuted: None,
        architecture: "sm_89",
    }
}

fn array(name: &str, dtype: Dtype, access: Access, lanes: u32) -> Parameter {
    Parameter { name: name.into(), what: What::Array { dtype, lanes, access, because: None }, multiple: 1 }
}

#[test]
fn what_cannot_be_known_is_said() {
    let seen = |name: &str, parameters: Vec<Parameter>| Seen {
        name: name.into(),
        parameters,
        block: Block { extents: vec![128], because: None, evidence: true },
        geometry: Geometry::default(),
        resources: Resources::default(),
        dynamic_shared: None,
    };
    let read = Access { read: true, ..Access::default() };
    let write = Access { written: true, ..Access::default() };
    let x = || array("x", Dtype::F32, read, 1);
    let y = || array("y", Dtype::F32, write, 1);
    let other = Parameter { name: "p".into(), what: What::Other("Params".into()), multiple: 1 };
    let error = draft(&seen("k", vec![other]), Err("untried"), &target(None)).unwrap_err();
    assert!(error.contains("parameter `p` is a `Params`"), "{error}");
    let error = draft(&seen("k", vec![x()]), Err("untried"), &target(None)).unwrap_err();
    assert!(error.contains("writes to none of its parameters"), "{error}");
    let error = draft(&seen("k", vec![x(), y()]), Err("untried"), &target(Some(Kind::Gemm))).unwrap_err();
    assert!(error.contains("`k` cannot be a gemm: `y` has 1 axes"), "{error}");
    // A name alone is not sufficient for a product.
    let custom = draft(&seen("gemm", vec![x(), y()]), Err("untried"), &target(None)).unwrap();
    assert_eq!(custom.operator, Kind::Custom);
    assert!(custom.python.is_some() && custom.questions.len() >= 2);
}

#[test]
fn narrow_formats_get_values_that_they_hold() {
    let read = Access { read: true, ..Access::default() };
    let write = Access { written: true, ..Access::default() };
    for (name, dtype, dims, wide) in [
        ("gemm", Dtype::F16, [&["m", "k"][..], &["k", "n"], &["m", "n"]], false),
        ("gemm", Dtype::F32, [&["m", "k"], &["k", "n"], &["m", "n"]], true),
        ("reduce_sum", Dtype::Bf16, [&["m", "n"], &["m", "n"], &["m"]], false),
        ("softmax", Dtype::F16, [&["m", "n"], &["m", "n"], &["m", "n"]], false),
    ] {
        let accesses = [read, read, write];
        let seen = Seen {
            name: name.into(),
            parameters: ["a", "b", "c"]
                .into_iter()
                .zip(accesses)
                .map(|(n, a)| array(n, dtype, a, 1))
                .collect(),
            block: Block { extents: vec![128], because: Some("not stated".into()), evidence: false },
            geometry: Geometry::default(),
            resources: Resources::default(),
            dynamic_shared: None,
        };
        let axis = |name: &&str| explore::Axis {
            name: (*name).to_owned(),
            multiple: 1,
            at_most: None,
            inner: true,
            outer: false,
            tile: None,
        };
        let arrays = dims.iter().zip(accesses).map(|(dims, access)| {
            Some(explore::Array { dims: dims.iter().map(|dim| (*dim).to_owned()).collect(), access })
        });
        let found = Found {
            axes: ["m", "n", "k"].iter().map(axis).collect(),
            arrays: arrays.collect(),
            values: vec![None; 3],
            grid: vec!["m".into()],
            ..Found::default()
        };
        let draft = draft(&seen, Ok(&found), &target(None)).unwrap();
        assert_eq!(draft.operator.name(), name.trim_end_matches("_sum").replace("reduce", "reduction"));
        assert_eq!(draft.text.contains("\"wide\""), wide, "{name} {dtype}");
        assert!(draft.text.contains("block = 128 # guessed without evidence: check it"), "{}", draft.text);
        assert!(
            draft.questions.iter().any(|question| question.contains("guessed without evidence: check it"))
        );
        // An input that the reference omits becomes a question.
        let left_out = draft.questions.iter().any(|question| question.contains("does not use `b`"));
        assert_eq!(left_out, name != "gemm", "{:?}", draft.questions);
        assert!(draft.text.contains("stage = \"counters\""));
        Task::parse(&draft.text).unwrap();
    }
}

fn corpus(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/triton/ptx").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The facts from source and PTX, and the result of trial runs.
fn explored(
    ptx: &str,
    symbol: &str,
    threads: u32,
    shared: Option<u32>,
    triton: Option<&Triton>,
) -> (Seen, Found) {
    let (traffic, geometry) = look(ptx, symbol).unwrap();
    let seen = Seen {
        name: symbol.into(),
        parameters: Parameter::all(&traffic, None, None, triton),
        block: Block { extents: vec![threads], because: None, evidence: true },
        geometry,
        resources: Resources::default(),
        dynamic_shared: shared,
    };
    let found = explore(ptx, symbol, &seen).unwrap();
    (seen, found)
}

fn dims(found: &Found) -> Vec<String> {
    found.arrays.iter().flatten().map(|array| array.dims.join(", ")).collect()
}

#[test]
fn a_run_shows_extents_and_grid() {
    let (_, found) = explored(SCALE, "scale", 256, None, None);
    assert_eq!(
        (dims(&found), found.grid.clone()),
        (vec!["n2".into(), "n2".into()], vec!["ceil_div(n2, 256)".into()])
    );
    assert_eq!(found.values, [None, None, Some("n2".to_owned()), None]);
    // Without a bound, the blocks decide the size, and extents are whole blocks.
    let open = SCALE.replace("setp.ge.s32 %p1, %r1, %r2;", "setp.ge.s32 %p1, %r1, 0x7fffffff;");
    let (_, found) = explored(&open, "scale", 64, None, None);
    assert_eq!((dims(&found)[0].as_str(), found.grid[0].as_str()), ("n2, 64", "n2"));
}

/// Triton does not convert addresses, appends pointers, and loads halves as bits.
#[test]
fn tritons_pointers_are_pointers() {
    let (traffic, geometry) = look(&corpus("softmax_f16.sm_89.ptx"), "softmax").unwrap();
    let access: Vec<(bool, bool)> = traffic.iter().map(|one| (one.access.read, one.access.written)).collect();
    let none = (false, false);
    assert_eq!(access, [(true, false), (false, true), none, none, none, none, none]);
    assert_eq!(geometry.bound, Some([32, 1, 1]));
    let all = Parameter::all(&traffic, None, None, None);
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["in1", "out2", "n2", "n3", "n4", "scratch5", "scratch6"]);
    assert!(matches!(all[0].what, What::Array { dtype: Dtype::F16, .. }), "{:?}", all[0].what);
    assert_eq!(all[6].what, What::Scratch { bytes_per_block: 0 });
}

#[test]
fn strides_limits_and_planes_are_found() {
    // One row per block, strides are separate numbers, and a block holds 256 columns.
    let (_, found) = explored(&corpus("softmax_f16.sm_89.ptx"), "softmax", 32, Some(0), None);
    assert_eq!(dims(&found), ["rows, n4", "rows, n4"]);
    assert_eq!(found.grid, ["rows"]);
    assert_eq!(found.values[2..5], [Some("n4".to_owned()), Some("n4".to_owned()), Some("n4".to_owned())]);
    assert_eq!(found.axes.iter().map(|axis| axis.at_most).collect::<Vec<_>>(), [None, Some(256)]);
}

proptest! {
    #[test]
    fn no_source_is_too_odd(text in "(__global__|void|k|[(){}<>,*= /a-zé0-9_\\n]){0,80}") {
        let _ = declared(&text, "k");
        let _ = source::block_constant(&text);
        let _ = source::block_assumed(&text, "k<4>");
        let _ = look(&text, "k");
    }

    /// The written task parses for any parameters.
    #[test]
    fn every_draft_is_a_task(
        kinds in proptest::collection::vec((0..5usize, 0..14usize, 1..5u32), 1..8),
        name in "(softmax|layer_norm|gemm|reduce_mean|saxpy|copy|mystery)",
        operator in proptest::option::of(0..6usize),
        shares in (0..4usize, 0..4usize),
        flags in proptest::collection::vec(any::<bool>(), 4),
        threads in 1..1025u32,
    ) {
        let dtypes: Vec<Dtype> = Dtype::names().iter().filter_map(|name| Dtype::named(name)).collect();
        let parameters = kinds.iter().enumerate().map(|(at, (kind, dtype, lanes))| {
            let access = |read, written, atomic| Access { read, written, atomic };
            match kind {
                0 => Parameter { name: format!("s{at}"), what: What::Scalar(dtypes[*dtype]), multiple: u64::from(*lanes) },
                1 => array(&format!("a{at}"), dtypes[*dtype], access(true, false, false), *lanes),
                2 => array(&format!("b{at}"), dtypes[*dtype], access(false, true, false), *lanes),
                3 => array(&format!("c{at}"), dtypes[*dtype], access(true, true, *lanes == 1), 1),
                _ => array(&format!("d{at}"), Dtype::F32, access(true, false, false), 1),
            }
        }).collect();
        let share = |at: usize| [Share::Whole, Share::Block, Share::Thread, Share::Tile(8)][at];
        let seen = Seen {
            name,
            parameters,
            block: Block { extents: vec![threads], because: flags[0].then(|| "it \"seems\" so".to_owned()), evidence: flags[1] },
            geometry: Geometry {
                shares: [share(shares.0), share(shares.1)],
                grid: [false; 3],
                tile_of_threads: None,
                strides: flags[1],
                two_dimensional: flags[2],
                dynamic_shared: flags[3],
                tensor_cores: None,
                bound: None,
            },
            resources: Resources::default(),
            dynamic_shared: None,
        };
        let operator = operator.and_then(|at| Kind::named(Kind::names()[at]));
        if let Ok(draft) = draft(&seen, Err("not \"run\"\nhere"), &target(operator)) {
            let parsed = Task::parse(&draft.text);
            prop_assert!(parsed.is_ok(), "{:?}\n{}", parsed.err(), draft.text);
        }
    }
}
