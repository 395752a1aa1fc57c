//! `warpproof exec` on programs that use the driver API: Python with only ctypes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fs;

use bench::Bench;

/// Opens the driver, launches a kernel of the file `module.ptx` by its name, and prints the result.
const PROGRAM: &str = r#"
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def ok(code):
    if code: sys.exit(f"answered {code}")
ok(cuda.cuInit(0))
context, module, function, data = (ctypes.c_void_p() for _ in range(4))
ok(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
text = open("module.ptx", "rb").read() + b"\0"
ok(cuda.cuModuleLoadData(ctypes.byref(module), text))
ok(cuda.cuModuleGetFunction(ctypes.byref(function), module, sys.argv[1].encode()))
ok(cuda.cuMemAlloc_v2(ctypes.byref(data), 256))
ok(cuda.cuMemsetD8_v2(data, 0, 256))
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(data))
for _ in range(3):
    ok(cuda.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, arguments, None))
    if code := cuda.cuCtxSynchronize(): break
code = cuda.cuCtxSynchronize()
print("synchronized", code)
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
"#;

/// Neighbors exchange numbers through shared memory: with a barrier between, and without.
const MODULE: &str = "
.version 8.7
.target sm_89
.address_size 64
.visible .entry right(.param .u64 out)
{
    .reg .b64 %rd<4>; .reg .b32 %r<8>;
    .shared .align 4 .b8 cells[256];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, cells;
    shl.b32 %r3, %r1, 2;
    add.u32 %r4, %r2, %r3;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    xor.b32 %r5, %r3, 252;
    add.u32 %r6, %r2, %r5;
    ld.shared.u32 %r7, [%r6];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r7;
    ret;
}
";

fn set_up() -> Bench {
    let bench = Bench::bare();
    fs::write(bench.dir.path().join("program.py"), PROGRAM).unwrap();
    let wrong = MODULE.replace("right", "wrong").replace("    bar.sync 0;\n", "");
    let wrong = wrong.split_once(".address_size 64").unwrap().1.to_owned();
    fs::write(bench.dir.path().join("module.ptx"), format!("{MODULE}{wrong}")).unwrap();
    bench
}

#[test]
fn a_program_without_mistakes_keeps_its_exit_code() {
    let bench = set_up();
    let run = bench.run(["exec", "--", "python3", "program.py", "right"]).exits(0);
    assert_eq!(run.out, "synchronized 0\n");
    assert!(run.err.contains("exec: 1 process, 3 launches, 3 checked, 0 findings"), "{}", run.err);
    bench.run(["exec", "--", "python3", "program.py", "right", "7"]).exits(7);
}

#[test]
fn a_race_in_a_program_is_found_and_shown() {
    let bench = set_up();
    let run = bench.run(["exec", "--", "python3", "program.py", "wrong"]).exits(1);
    // The program itself sees nothing.
    assert_eq!(run.out, "synchronized 0\n");
    for expected in
        ["error[shared-race]", "wrong.ptx:", "st.shared.u32", "ld.shared.u32", "in kernel `wrong`"]
    {
        assert!(run.err.contains(expected), "{expected}:\n{}", run.err);
    }
    // Except if a finding makes the launch fail.
    let run = bench.run(["exec", "--fail", "--", "python3", "program.py", "wrong"]).exits(1);
    assert_eq!(run.out, "synchronized 719\n");
    // Without checks, no finding is reported.
    let run = bench.run(["exec", "--checks", "none", "--", "python3", "program.py", "wrong"]).exits(0);
    assert!(run.err.contains("3 launches, 0 checked"), "{}", run.err);
}

#[test]
fn what_was_found_as_json() {
    let bench = set_up();
    let both = "python3 program.py wrong > first & python3 program.py wrong > second; wait";
    let run = bench.run(["exec", "--format", "json", "--", "sh", "-c", both]).exits(1);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["schema"], "warpproof.exec/1");
    assert_eq!((&json["processes"], &json["launches"]), (&2.into(), &6.into()));
    let findings = json["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!((&findings[0]["kernel"], &findings[0]["processes"]), (&"wrong".into(), &2.into()));
    // To a file, because the program prints too.
    let run = bench.run(["exec", "--output", "found.json", "--", "python3", "program.py", "wrong"]).exits(1);
    assert_eq!(run.out, "synchronized 0\n");
    assert!(run.err.contains("1 finding"), "{}", run.err);
    let text = fs::read_to_string(bench.dir.path().join("found.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["launches"], &json["findings"][0]["kernel"]), (&3.into(), &"wrong".into()));
}

#[test]
fn a_program_that_is_not_there_and_one_without_a_device() {
    let bench = set_up();
    let run = bench.run(["exec", "--", "no-such-program"]).exits(2);
    assert!(run.err.contains("cannot run no-such-program"), "{}", run.err);
    let run = bench.run(["exec", "--checks", "rcae", "--", "true"]).exits(2);
    assert!(run.err.contains("unknown check `rcae`"), "{}", run.err);
    let run = bench.run(["exec", "--", "true"]).exits(0);
    assert!(run.err.contains("opened no device"), "{}", run.err);
}

#[test]
fn the_library_alone_is_enough() {
    let bench = set_up();
    let path = bench.run(["exec", "--library-path"]).exits(0).out;
    let program = std::process::Command::new("python3")
        .args(["program.py", "wrong"])
        .current_dir(bench.dir.path())
        .env("LD_LIBRARY_PATH", path.trim())
        .output()
        .unwrap();
    assert!(program.status.success());
    let told = String::from_utf8(program.stderr).unwrap();
    assert!(told.contains("warpproof: kernel `wrong`: shared-race: data race"), "{told}");
}

#[test]
fn a_hundred_processes_at_once() {
    let bench = set_up();
    let many =
        "for i in $(seq 100); do python3 program.py right > out.$i & done; wait; cat out.* | sort | uniq -c";
    let run = bench.run(["exec", "--checks", "none", "--", "sh", "-c", many]).exits(0);
    assert_eq!(run.out.trim(), "100 synchronized 0");
    assert!(run.err.contains("exec: 100 processes, 300 launches"), "{}", run.err);
}

#[test]
fn help() {
    insta::assert_snapshot!(Bench::bare().run(["exec", "--help"]).exits(0).out);
}

/// Compiles a program of `tests/host` into the bench's directory.
fn compile(bench: &Bench, name: &str) {
    let library = bench.run(["exec", "--library-path"]).exits(0).out;
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/host");
    let compiled = std::process::Command::new("cc")
        .args(["-g", "-o", "program"])
        .arg(std::path::Path::new(source).canonicalize().unwrap().join(name))
        .arg(format!("{}/libcuda.so.1", library.trim()))
        .current_dir(bench.dir.path())
        .status()
        .unwrap();
    assert!(compiled.success());
}

#[test]
fn findings_of_the_host_are_shown_at_their_lines() {
    let bench = Bench::bare();
    compile(&bench, "fail/double_free.c");
    let run = bench.run(["exec", "--", "./program"]).exits(1);
    for expected in
        ["error[double-free]", "double_free.c:10", "the second free", "the first free", "the allocation"]
    {
        assert!(run.err.contains(expected), "{expected}:\n{}", run.err);
    }
    let run = bench.run(["exec", "--format", "json", "--", "./program"]).exits(1);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let report = &json["findings"][0]["report"];
    assert_eq!((&report["code"], &report["place"]["line"]), (&"double-free".into(), &10.into()));
    bench.run(["exec", "--checks", "none", "--", "./program"]).exits(0);
}

#[test]
fn a_leak_is_a_warning_unless_it_is_made_an_error() {
    let bench = Bench::bare();
    compile(&bench, "fail/leak.c");
    let run = bench.run(["exec", "--", "./program"]).exits(0);
    assert!(run.err.contains("warning[memory-leak]: 1024 bytes"), "{}", run.err);
    assert!(run.err.contains("0 findings, 1 warning"), "{}", run.err);
    bench.run(["exec", "--leaks", "error", "--", "./program"]).exits(1);
    let run = bench.run(["exec", "--leaks", "off", "--", "./program"]).exits(0);
    assert!(!run.err.contains("memory-leak"), "{}", run.err);
}

#[test]
fn a_finding_of_a_kernel_names_its_launch() {
    let bench = Bench::bare();
    compile(&bench, "fail/kernel_after_free.c");
    let run = bench.run(["exec", "--", "./program"]).exits(1);
    for expected in ["error[use-after-free]", "was freed at", "note: the launch", "kernel_after_free.c:14"] {
        assert!(run.err.contains(expected), "{expected}:\n{}", run.err);
    }
}

#[test]
fn late_work_gives_old_values_to_a_program_that_does_not_wait() {
    let bench = Bench::bare();
    compile(&bench, "late/stale_pinned.c");
    let run = bench.run(["exec", "--", "./program"]).exits(1);
    assert!(
        run.err.contains("error[stream-race]: the host reads memory that the copy writes"),
        "{}",
        run.err
    );
    bench.run(["exec", "--host-races", "off", "--", "./program"]).exits(0);
    bench.run(["exec", "--late", "--", "./program"]).exits(5);
    bench.run(["exec", "--late", "--", "./program", "synchronize"]).exits(0);
}
