//! `diff`, run as a user does.
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
fn help() {
    let shown = Bench::bare().run(["diff", "--help"]).exits(0);
    insta::assert_snapshot!("help_diff", shown.out);
}
