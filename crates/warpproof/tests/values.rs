//! `diff` and `fragments`, run as a user does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and reports what it found")]

mod bench;

use std::fs;

use bench::Bench;

/// Each thread takes a running maximum over four tiles and stores it. `STEP` is one instruction.
const MAXIMUM: &str = "\
//@launch: kernel=maximum grid=2 block=32 arg=x:in:f32[128]=randn(seed=3) arg=y:out:f32[32]
.version 8.0
.target sm_89
.address_size 64
.visible .entry maximum(.param .u64 x, .param .u64 y)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<7>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd5, %rd2, %rd3;
    mov.f32 %f2, 0fFF800000;
    mov.u32 %r2, 0;
LOOP:
    ld.global.f32 %f1, [%rd4];
    STEP
    add.u64 %rd4, %rd4, 128;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 4;
    @%p1 bra LOOP;
    st.global.f32 [%rd5], %f2;
    ret;
}
";

/// The lines of the maximum and of the store.
const MAX: &str = "21";
const STORE: &str = "26";

fn pair(step: &str) -> Bench {
    let bench = Bench::bare();
    let write = |name: &str, step: &str| {
        fs::write(bench.dir.path().join(name), MAXIMUM.replace("STEP", step)).unwrap();
    };
    write("a.ptx", "max.f32 %f2, %f2, %f1;");
    write("b.ptx", step);
    bench
}

#[test]
fn the_first_different_step_is_shown() {
    let bench = pair("@%p1 max.f32 %f2, %f2, %f1;");
    // The guard is false in the first step only, so the running maximum differs there.
    let run = bench.run(["diff", "a.ptx", "b.ptx", "--at", MAX]).exits(1);
    assert!(run.out.contains("first difference: tile 0, block 0, row"), "{}\n{}", run.out, run.err);
    assert!(run.out.contains("max.f32"), "{}", run.out);
    let json = bench.run(["diff", "a.ptx", "b.ptx", "--at", MAX, "--json"]).exits(1).json();
    assert_eq!(json["schema"], "warpproof.diff/1");
    // The second kernel executes the line three times, not four.
    assert_eq!(json["at"][MAX]["only_a"], 64);
    assert_eq!(json["differences"][0]["tile"], 0);
}

#[test]
fn equal_kernels_are_equal_and_rows_can_be_computed() {
    let bench = pair("max.f32 %f2, %f1, %f2;");
    let equal = bench.run(["diff", "a.ptx", "b.ptx", "--at", MAX, "--at", STORE]).exits(0);
    assert!(equal.out.contains("256 values compared, 0 differ"), "{}", equal.out);
    assert!(equal.out.contains("64 values compared, 0 differ"), "{}", equal.out);
    assert!(equal.out.ends_with("all values are equal\n"), "{}", equal.out);
    // In other rows are other values.
    let other = ["diff", "a.ptx", "b.ptx", "--at", STORE, "--row-b", "31-lane"];
    bench.run(other).exits(1);
    for (flags, expected) in [
        (&["--at", "99"][..], "it has no line 99"),
        (&["--at", "m_new"], "no line assigns `m_new`"),
        (&["--at", "28"], "no instruction gives the result of 28"),
        (&["--at", MAX, "--row", "rows"], "expected a number, block, thread"),
        (&["--at", MAX, "--row", "lane/step"], "--row has no value"),
        (&[], "--at"),
    ] {
        let wrong = bench.run(["diff", "a.ptx", "b.ptx"].iter().chain(flags)).exits(2);
        assert!(wrong.err.contains(expected), "{flags:?}: {}", wrong.err);
    }
    fs::write(
        bench.dir.path().join("b.ptx"),
        MAXIMUM.replace("STEP", "max.f32 %f2, %f2, %f1;").replace("seed=3", "seed=4"),
    )
    .unwrap();
    let seeds = bench.run(["diff", "a.ptx", "b.ptx", "--at", STORE]).exits(1);
    assert!(seeds.err.contains("different values in the array `x`"), "{}", seeds.err);
}

/// An online softmax; the second version forgets to rescale the sum.
const SOFTMAX: &str = "\
//@launch: kernel=rows block=64 arg=x:in:f32[512]=randn(seed=1) arg=y:out:f32[64]
extern \"C\" __global__ void rows(const float *x, float *y)
{
    float m = -INFINITY, l = 0;
    for (int tile = 0; tile < 8; tile++) {
        float v = x[64 * tile + threadIdx.x];
        float m_new = fmaxf(m, v);
        float rescale = __expf(m - m_new);
#ifdef FORGET
        l = l + __expf(v - m_new);
#else
        l = l * rescale + __expf(v - m_new);
#endif
        m = m_new;
    }
    y[threadIdx.x] = m + __logf(l);
}
";

#[test]
fn toolchain_variables_of_a_source_are_compared() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("k.cu"), SOFTMAX).unwrap();
    let args = ["diff", "k.cu", "k.cu", "--define-b", "FORGET", "--at", "m_new", "--at", "12:l", "--at-b"];
    let run = bench.run(args.iter().chain(&["m_new", "--at-b", "10:l"])).exits(1);
    assert!(run.out.contains("m_new: 512 values compared, 0 differ"), "{}\n{}", run.out, run.err);
    assert!(run.out.contains("12:l: 512 values compared"), "{}", run.out);
    // The first tile has no sum yet, so the first difference is in the second.
    assert!(run.out.contains("first difference: tile 1, block 0"), "{}", run.out);
    let same = bench.run(["diff", "k.cu", "k.cu", "--at", "m_new", "--at", "12:l"]).exits(0);
    assert!(same.out.ends_with("all values are equal\n"), "{}", same.out);
}

#[test]
fn fragments_are_printed_and_tables_verified() {
    let bench = Bench::bare();
    let shown = bench.run(["fragments", "wmma16x16x16"]).exits(0).out;
    let first = shown.lines().find(|line| line.starts_with("   0 ")).unwrap();
    let cells: Vec<&str> = first.split_whitespace().collect();
    assert_eq!(&cells[..6], ["0", "0.0", "0.1", "1.0", "1.1", "2.0"], "{shown}");
    assert_eq!(cells[9..11], ["0.4", "0.5"], "{shown}");
    let json = bench.run(["fragments", "wmma16x16x16", "--json"]).exits(0).json();
    let table = json["lanes"].to_string().replace('[', "{").replace(']', "}");
    let lut = bench.dir.path().join("lut.h");
    let verify = |text: &str, code: i32| {
        fs::write(&lut, text).unwrap();
        bench.run(["fragments", "wmma16x16x16", "--verify", "lut.h"]).exits(code)
    };
    let good = format!("#pragma once\nstatic const int WMMA_ACCUM_LUT[32][8][2] = {table};\n");
    let sound = verify(&good, 0);
    assert!(sound.out.contains("WMMA_ACCUM_LUT covers each of 256 places exactly once"), "{}", sound.out);
    // Lane 0 holds (8, 0); now it holds (0, 0) twice.
    let twice = verify(&good.replacen("{8,0}", "{0,0}", 1), 1);
    assert!(twice.err.contains("does not cover places: (8, 0)"), "{}", twice.err);
    assert!(twice.err.contains("(0, 0) by 0.0 and 0.2"), "{}", twice.err);
    // A table that covers everything once, and is another layout.
    let swapped = good.replacen("{0,0}", "{X}", 1).replacen("{0,1}", "{0,0}", 1).replacen("{X}", "{0,1}", 1);
    let other = verify(&swapped, 1);
    assert!(other.err.contains("differs from the layout of the instruction: 0.0 = (0, 1)"), "{}", other.err);
    assert!(verify("int lut[4] = {1, 2, 3, 4};", 2).err.contains("has 4 numbers; expected 256 pairs"));
    let factor = bench.run(["fragments", "mma16x8x32", "--matrix", "a", "--bits", "8"]).exits(0).out;
    assert!(factor.contains("16 rows, 32 columns"), "{factor}");
    for (args, expected) in [
        (&["fragments", "mma16x16x16"][..], "expected an instruction with a shape"),
        (&["fragments", "wmma16x16x16", "--bits", "4"], "use --bits 16 or 8"),
        (&["fragments", "wmma16x16x16", "--verify", "gone.h"], "cannot read gone.h"),
    ] {
        let wrong = bench.run(args).exits(2);
        assert!(wrong.err.contains(expected), "{args:?}: {}", wrong.err);
    }
}

#[test]
fn unknown_metrics_have_no_value() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    let asked = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,gpu__made_up.sum,sm__warps_active";
    let run = bench.run(["counters", &kernel, "--metrics", asked]).exits(0);
    let value = |name: &str| {
        let line = run.out.lines().find(|line| line.contains(name)).unwrap();
        line.rsplit(',').next().unwrap().to_owned()
    };
    assert_eq!(value("gpu__made_up.sum"), "\"n/a\"");
    assert_ne!(value("mem_global_op_ld"), "\"n/a\"");
    assert!(run.err.contains("unknown metric `gpu__made_up.sum`"), "{}", run.err);
    assert!(run.out.contains("sm__warps_active.avg.pct_of_peak_sustained_active"), "{}", run.out);
}

#[test]
fn toolchain_metrics_that_depend_on_time_are_predicted() {
    let bench = Bench::new();
    let kernel = bench.kernel("run_saxpy.ptx");
    // ptxas accepts only ASCII.
    let path = bench.dir.path().join(&kernel);
    let text = fs::read_to_string(&path).unwrap().replace('·', "*");
    fs::write(&path, text).unwrap();
    let run =
        bench.run(["counters", &kernel, "--metrics", "sm__warps_active,sm__pipe_tensor_active"]).exits(0);
    let values: Vec<f64> = run
        .out
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap().trim_matches('"').parse().unwrap())
        .collect();
    // No tensor cores, and less than the whole device.
    assert!(values[0].abs() < 1e-9 && values[1] > 0.0 && values[1] < 100.0, "{}", run.out);
    assert!(run.err.contains("are predicted for an NVIDIA"), "{}", run.err);
}

#[test]
fn help() {
    let bench = Bench::bare();
    for command in ["diff", "fragments"] {
        let shown = bench.run([command, "--help"]).exits(0);
        insta::with_settings!({ description => command, omit_expression => true }, {
            insta::assert_snapshot!(format!("help_{command}"), shown.out);
        });
    }
}
