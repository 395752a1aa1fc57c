//! `fragments` and metrics of `counters`, run as a user does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and reports what it found")]

mod bench;

use std::fs;

use bench::Bench;

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
    let shown = Bench::bare().run(["fragments", "--help"]).exits(0);
    insta::with_settings!({ description => "fragments", omit_expression => true }, {
        insta::assert_snapshot!("help_fragments", shown.out);
    });
}
