//! Runs `explain` and `ladder` like a user.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fs;

use bench::{Bench, Run};
use serde_json::Value;
use warpproof_kernels::ladder::LADDER;

fn explain(bench: &Bench, args: &[&str]) -> Run {
    bench.run(["explain"].iter().chain(args))
}

#[test]
fn help() {
    let bench = Bench::bare();
    for command in [&["explain"][..], &["attention", "ladder"]] {
        let run = bench.run(command.iter().chain(&["--help"])).exits(0);
        insta::assert_snapshot!(format!("help_{}", command.join("_")), run.out);
    }
}

/// 32 lanes read down a column of a tile whose rows are 32 words: all in one bank.
const COLUMN: &str = r#"//@launch: kernel=column grid=58 block=32 arg=in:f32[59392]=iota arg=out:f32[59392]
extern "C" __global__ void column(const float *in, float *out)
{
    __shared__ float tile[32][32];
    int lane = threadIdx.x;
    for (int row = 0; row < 32; ++row)
        tile[row][lane] = in[blockIdx.x * 1024 + row * 32 + lane];
    __syncwarp();
    for (int row = 0; row < 32; ++row)
        out[blockIdx.x * 1024 + lane * 32 + row] = tile[lane][row];
}
"#;

fn column(bench: &Bench) -> Value {
    fs::write(bench.dir.path().join("column.cu"), COLUMN).unwrap();
    explain(bench, &["column.cu", "--format", "json"]).exits(0).json()
}

#[test]
fn toolchain_conflicts_and_strides_are_told_with_their_lines_and_patterns() {
    let bench = Bench::new();
    let json = column(&bench);
    assert_eq!(json["schema"], "warpproof.explain/1");
    // 58 warps read 32 columns, each in 32 passes instead of one; the unrolled loop has an instruction for each turn.
    let conflicts = json["conflicts"].as_array().unwrap();
    let sum = |field: &str| conflicts.iter().map(|one| one[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("wavefronts"), sum("ideal")), (58 * 32 * 32, 58 * 32));
    assert_eq!(conflicts.len(), 1);
    for one in conflicts {
        assert_eq!((&one["place"]["line"], &one["copies"]), (&10.into(), &32.into()));
        assert_eq!(one["degree"], 32.0);
        assert_eq!(one["pattern"]["stride"], 128);
        assert_eq!(
            one["pattern"]["says"],
            "4 bytes per lane, lanes 128 bytes apart: 32 passes through the banks instead of 1"
        );
        assert!(one["text"].as_str().unwrap().contains("tile[lane][row]"));
    }
    // The same line stores to global memory 128 bytes apart.
    let stores = json["uncoalesced"].as_array().unwrap();
    let sum = |field: &str| stores.iter().map(|one| one[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("sectors"), sum("ideal")), (58 * 32 * 32, 58 * 32 * 4));
    assert_eq!(stores[0]["pattern"]["stride"], 128);
    // Passes: 32 stores and 32 * 32 loads of each warp; without conflicts 64.
    assert_eq!(json["counted"]["work"]["shared_wavefronts"], 58 * (32 + 32 * 32));
    let shop = json["predicted"]["purchases"].as_array().unwrap();
    assert_eq!(shop[0]["offer"], "remove-conflicts");
    // Stores reach L2 with all their sectors, which is the bottleneck: without conflicts the bound stays,
    // with coalescing it decreases.
    assert_eq!(json["predicted"]["bounds"]["warm"][0]["resource"], "l2");
    let warm = |offer: usize, field: &str| shop[offer]["warm"][field].as_f64().unwrap();
    assert!(warm(0, "before") <= warm(0, "after"), "{:#}", shop[0]);
    assert!(warm(1, "before") > warm(1, "after"), "{:#}", shop[1]);
    assert!(shop[0]["scheduled"]["before"].as_f64() > shop[0]["scheduled"]["after"].as_f64());
    // Shared memory limits occupancy: less of it allows more blocks, fewer registers do not help.
    assert_eq!(shop[2]["verdict"], "nothing");
    assert_eq!(shop[3]["verdict"], "24 instead of 20 blocks per SM (41.7 % → 50.0 %)");
}

#[test]
fn toolchain_the_same_explanation_every_time_and_for_any_number_of_threads() {
    let bench = Bench::new();
    let first = column(&bench);
    for threads in ["1", "3"] {
        let args = ["column.cu", "--format", "json", "--threads", threads];
        assert_eq!(explain(&bench, &args).exits(0).json(), first, "{threads} threads");
    }
}

#[test]
fn toolchain_the_table_says_what_binds_and_where_numbers_come_from() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("column.cu"), COLUMN).unwrap();
    let run = explain(&bench, &["column.cu", "-o", "out.txt"]).exits(0);
    assert_eq!(run.out, "");
    let text = fs::read_to_string(bench.dir.path().join("out.txt")).unwrap();
    for expected in [
        "column on an NVIDIA L4 (sm_89, ptxas ",
        "58 blocks of 32 threads",
        "bound: shared memory",
        "binds warm",
        "schedule of the machine code",
        "top lines by predicted warp cycles, warm",
        "bank conflicts (counted)\n  32.00-way  column.cu:10",
        "worst: 4 bytes per lane, lanes 128 bytes apart: 32 passes through the banks instead of 1",
        "32.0 sectors per request instead of 4.0",
        "remove bank conflicts (",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
}

#[test]
fn toolchain_a_trace_has_an_event_for_every_instruction_of_a_multiprocessor() {
    let bench = Bench::new();
    let kernel = bench.kernel("run_saxpy.cu");
    explain(&bench, &[&kernel, "--trace", "trace.json"]).exits(0);
    let text = fs::read_to_string(bench.dir.path().join("trace.json")).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(trace["otherData"]["kind"], "predicted");
    let events = trace["traceEvents"].as_array().unwrap();
    let issued: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    // One block on each multiprocessor: eight warps.
    let mut warps: Vec<u64> = issued.iter().map(|event| event["tid"].as_u64().unwrap()).collect();
    warps.sort_unstable();
    warps.dedup();
    assert_eq!(warps, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(issued.iter().all(|event| event["pid"].as_u64() == event["tid"].as_u64().map(|warp| warp % 4)));
    assert!(issued.iter().any(|event| event["name"].as_str().unwrap().starts_with("LDG")));
    assert!(issued.iter().any(|event| event["args"]["source"].as_str().is_some_and(|s| s.ends_with(":7"))));
}

#[test]
fn toolchain_where_warps_diverge_the_bounds_are_what_is_left() {
    let bench = Bench::new();
    let source = r#"//@launch: kernel=parted grid=1 block=32 arg=out:f32[32]
extern "C" __global__ void parted(float *out)
{
    float x = threadIdx.x;
    for (unsigned i = 0; i < threadIdx.x; ++i)
        x = __shfl_xor_sync(__activemask(), x, 0) * 1.5f;
    if (threadIdx.x & 1) {
        for (int i = 0; i < 7; ++i) { x += __sinf(x); __syncwarp(__activemask()); }
        out[threadIdx.x] = x;
    } else {
        for (int i = 0; i < 9; ++i) { x += __cosf(x); __syncwarp(__activemask()); }
        out[threadIdx.x] = 2 * x;
    }
}
"#;
    fs::write(bench.dir.path().join("parted.cu"), source).unwrap();
    let json = explain(&bench, &["parted.cu", "--format", "json"]).exits(0).json();
    let schedule = &json["predicted"]["schedule"];
    assert_eq!(schedule["kind"], "uncertain");
    assert!(!schedule["why"].as_str().unwrap().is_empty());
    assert_eq!(json["counted"]["instructions_of"], "ptx");
    let run = explain(&bench, &["parted.cu", "--trace", "trace.json"]).exits(5);
    assert!(run.err.contains("no timeline available"), "{}", run.err);
    assert!(run.out.contains("uncertain: "), "{}", run.out);
    assert!(!json["predicted"]["bounds"]["cold"].as_array().unwrap().is_empty());
}

/// A kernel of the UI suite on an H100.
fn on_h100(bench: &Bench, kernel: &str) -> Value {
    let file = format!("{}/../../tests/pass/{kernel}", env!("CARGO_MANIFEST_DIR"));
    explain(bench, &[&file, "--arch", "sm_90a", "--device", "h100", "--format", "json"]).exits(0).json()
}

#[test]
fn toolchain_products_of_warpgroups_are_scheduled() {
    let bench = Bench::new();
    let json = on_h100(&bench, "wgmma/pipelined_gemm.cu");
    assert_eq!(json["subject"]["arch"], "sm_90a");
    // Two blocks multiply 64 x 64 over a depth of 256.
    let tensor = &json["counted"]["work"]["tensor"];
    assert_eq!(*tensor, serde_json::json!([["f16-to-f32", 2 * 64 * 64 * 256]]));
    let predicted = &json["predicted"];
    let cycles = predicted["schedule"]["warm"]["cycles"]
        .as_u64()
        .unwrap_or_else(|| panic!("{}", predicted["schedule"]));
    // 16 products of 32 cycles each, one after the other in groups of four.
    assert!((16 * 32..20_000).contains(&cycles), "{cycles}");
    let bound = predicted["bounds"]["warm"][0]["us"].as_f64().unwrap();
    assert!(predicted["schedule"]["warm"]["us"].as_f64().unwrap() >= bound);
    let remarks = json["remarks"].to_string();
    assert!(remarks.contains("the result of a wgmma follows"), "{remarks}");
}

#[test]
fn toolchain_what_cannot_be_explained_says_why() {
    let bench = Bench::new();
    let kernel = bench.kernel("run_saxpy.cu");
    let run = explain(&bench, &[&kernel, "--device", "abacus"]).exits(2);
    assert!(run.err.contains("known devices: "), "{}", run.err);
    let run = explain(&bench, &["absent.cu"]).exits(2);
    assert!(run.err.contains("cannot read absent.cu"), "{}", run.err);
    let wrong = bench.kernel("run_out_of_bounds.cu");
    explain(&bench, &[&wrong]).exits(1);
    let endless = bench.kernel("run_endless.ptx");
    explain(&bench, &[&endless, "--block", "32", "--max-instructions", "1000"]).exits(4);
    let run = explain(&bench, &[&kernel, "--trace", "no/such/place.json"]).exits(2);
    assert!(run.err.contains("cannot write no/such/place.json"), "{}", run.err);
}

/// No kernel is faster than the roofline of its problem: neither by its bounds nor by its schedule, with a
/// cold or a warm cache.
fn not_below_the_roofline(row: &serde_json::Value) {
    let times = &row["predicted"];
    let us = |name: &str| times[name].as_f64();
    for (roof, name) in [
        ("roofline_us", "bound_cold_us"),
        ("roofline_us", "schedule_cold_us"),
        ("roofline_warm_us", "bound_warm_us"),
        ("roofline_warm_us", "schedule_warm_us"),
    ] {
        let (Some(roof), Some(us)) = (us(roof), us(name)) else { continue };
        assert!(us >= roof * (1.0 - 1e-9), "{name} is {us} and the roofline {roof}: {row:#}");
    }
}

#[test]
fn toolchain_no_prediction_of_the_ladder_is_below_its_roofline() {
    let bench = Bench::new();
    let json = bench.run(["attention", "ladder", "--json", "--shape", "2,8,256,64"]).exits(0).json();
    for row in json["rows"].as_array().unwrap() {
        assert!(row["predicted"]["roofline_us"].is_f64(), "{row:#}");
        not_below_the_roofline(row);
    }
}

#[test]
fn toolchain_the_ladder_is_one_table() {
    let bench = Bench::new();
    let json = bench.run(["attention", "ladder", "--json", "--shape", "1,1,64,64"]).exits(0).json();
    assert_eq!((&json["schema"], &json["shape"]), (&"warpproof.ladder/1".into(), &"B1 H1 S64 D64".into()));
    let rows = json["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let triton = ["attention_f16_64x64", "attention_e4m3_64x64"];
    assert_eq!(names, LADDER.iter().map(|rung| rung.name).chain(triton).collect::<Vec<_>>());
    for row in rows {
        assert_eq!(row["outcome"], "explained", "{row:#}");
        let times = &row["predicted"];
        assert!(times["bound_cold_us"].as_f64().unwrap() >= times["bound_warm_us"].as_f64().unwrap());
        assert!(times["bound_warm_us"].as_f64().unwrap() > 0.0);
        assert!(!times["binds_cold"].is_null());
        // A schedule, or the reason why there is none.
        assert_eq!(times["schedule_warm_us"].is_null(), times["uncertain"].is_string(), "{row:#}");
        if let Some(us) = times["schedule_warm_us"].as_f64() {
            assert!(us >= times["bound_warm_us"].as_f64().unwrap(), "{row:#}");
        }
        not_below_the_roofline(row);
    }
    // Two products of 64 x 64 x 64 by the tensor cores.
    for name in ["n4-mma-fp8", "attention_f16_64x64", "attention_e4m3_64x64"] {
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        assert_eq!(row["counted"]["tensor"], 2 * 64 * 64 * 64, "{name}");
    }
    let text = bench.run(["attention", "ladder", "--shape", "1,1,64,128"]).exits(0).out;
    assert!(text.contains("skipped: rung h0-scalar does not support"), "{text}");
    assert!(text.contains("skipped: the module was compiled for rows of 64 elements"), "{text}");
    bench.run(["attention", "ladder", "--shape", "1,1,64"]).exits(2);
}

/// Adds to a word for each block and column: with 0 columns all to one word.
const SUMS: &str = r#"//@launch: kernel=sums grid=58 block=256 arg=out:f32[256]=0
extern "C" __global__ void sums(float *out)
{
    atomicAdd(out + (threadIdx.x & COLUMNS), 1.0f + threadIdx.x);
}
"#;

#[test]
fn toolchain_atomics_at_one_address_are_dearer_than_spread_ones_and_told() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("sums.cu"), SUMS).unwrap();
    let of = |columns: &str| {
        let define = format!("COLUMNS={columns}");
        explain(&bench, &["sums.cu", "-D", &define, "--format", "json"]).exits(0).json()
    };
    let (one, spread) = (of("0"), of("255"));
    let warm = |json: &Value| json["predicted"]["bounds"]["warm"][0].clone();
    assert_eq!(warm(&one)["resource"], "one-address");
    // 58 blocks of 256 threads at 2,040 MHz, one a cycle.
    assert!((warm(&one)["us"].as_f64().unwrap() - 58.0 * 256.0 / 2040.0).abs() < 1e-9, "{}", warm(&one));
    assert!(warm(&one)["us"].as_f64() > warm(&spread)["us"].as_f64());
    assert_eq!(one["counted"]["work"]["one_address"], 58 * 256);
    assert_eq!(spread["counted"]["work"]["one_address"], 58);
    let atomics = one["atomics"].as_array().unwrap();
    assert_eq!(atomics.len(), 1);
    let told = &atomics[0];
    // The old value is not read: a reduction.
    assert_eq!(
        (&told["kind"], &told["space"], &told["place"]["line"]),
        (&"red".into(), &"global".into(), &4.into())
    );
    assert_eq!(
        (&told["requests"], &told["most"], &told["serial"]),
        (&464.into(), &32.into(), &(464 * 32).into())
    );
    assert_eq!(told["per_address"], 32.0);
    let text = explain(&bench, &["sums.cu", "-D", "COLUMNS=0"]).exits(0).out;
    for expected in [
        "bound: atomics at one address",
        "atomics (counted)\n",
        "32.0 lanes at an address, 32 at most, 464 requests, ",
        "14,848 operations, serialized\n",
        "the hottest address of device memory: 14,848 operations",
        "note: 14,848 atomic operations target one address",
        "instructions of PTX",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
    assert!(!text.contains("\n      nothing\n"), "{text}");
    let page = explain(&bench, &["sums.cu", "-D", "COLUMNS=0", "--format", "html"]).exits(0).out;
    assert!(page.contains("<h2>Atomics</h2>"), "{page}");
}

#[test]
fn toolchain_several_launch_lines_are_said_and_chosen_from() {
    let bench = Bench::new();
    let source = format!("//@launch: kernel=sums grid=1 block=32 arg=out:f32[256]=0\n{SUMS}");
    fs::write(bench.dir.path().join("two.cu"), source).unwrap();
    let args = ["two.cu", "-D", "COLUMNS=0", "--format", "json"];
    let run = explain(&bench, &args).exits(0);
    assert!(
        run.err.contains("the file has 2 launch lines; explaining the first (line 1, of `sums`)"),
        "{}",
        run.err
    );
    assert_eq!(run.json()["counted"]["blocks"], 1);
    let run = explain(&bench, &[&args[..], &["--launch-line", "2"]].concat()).exits(0);
    assert_eq!((run.err.as_str(), &run.json()["counted"]["blocks"]), ("", &58.into()));
    let run = explain(&bench, &[&args[..], &["--launch-line", "3"]].concat()).exits(2);
    assert!(run.err.contains("expected a launch line from 1 to 2, found 3"), "{}", run.err);
}

#[test]
fn toolchain_mistakes_of_usage_are_told_in_words_of_the_source() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("column.cu"), COLUMN).unwrap();
    let run = explain(&bench, &["column.cu", "--device", "t4"]).exits(2);
    assert!(run.err.contains("compiled for sm_89, but an NVIDIA T4 runs sm_75"), "{}", run.err);
    assert!(run.err.contains("--arch sm_75"), "{}", run.err);
    explain(&bench, &["column.cu", "--device", "t4", "--arch", "sm_75"]).exits(0);
    let run = explain(&bench, &["column.cu", "--threads", "0"]).exits(2);
    assert!(run.err.contains("expected at least one thread"), "{}", run.err);
    let run = explain(&bench, &["column.cu", "--arg", "in:f32[4]=0"]).exits(2);
    assert!(run.err.contains("the kernel is column(const float *in, float *out)"), "{}", run.err);
}

#[test]
fn toolchain_a_ladder_of_which_nothing_is_left_is_no_answer() {
    let bench = Bench::new();
    let run = bench.run(["attention", "ladder", "--shape", "1,1,16,48"]).exits(3);
    assert!(run.err.contains("no kernel could be predicted"), "{}{}", run.out, run.err);
    // One line for each kernel.
    assert_eq!(run.out.matches("skipped: ").count(), LADDER.len() + 2, "{}", run.out);
}
