//! Compares the module requirements of instructions with those of ptxas.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use warpproof_sim::{Blame, Device, Stop, StopKind, isa};

#[test]
fn ptxas_asks_for_the_same_architectures() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("../vectors/architectures.tsv").lines().filter(|line| !line.starts_with('#')) {
        let [spelled, target, version] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let mut words = spelled.split('.');
        let opcode = words.next().unwrap();
        let (entry, modifiers) = isa::find(opcode, &words.collect::<Vec<_>>()).unwrap();
        let needs = isa::needs(entry, &modifiers);
        let suffix = if needs.specific { "a" } else { "" };
        let (major, minor) = version.split_once('.').unwrap();
        let version = (major.parse().unwrap(), minor.parse().unwrap());
        // Current versions of ptxas do not support older architectures.
        if format!("sm_{}{suffix}", needs.sm.max(50)) != target || needs.version > version {
            wrong.push(format!("{line}: {needs:?}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 500, "only {count} spellings");
}

fn decode(version: &str, target: &str, functions: &str, body: &str) -> Result<(), Box<Stop>> {
    let text = format!(
        ".version {version}\n.target {target}\n.address_size 64\n{functions}\n.visible .entry k() {{\n\
         .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .pred %p;\n{body}\nret;\n}}\n"
    );
    let mut device = Device::new();
    device.load(&text).unwrap().kernel("k").map(|_| ())
}

const FP8: &str = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, \
                   {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};";

#[track_caller]
fn refused(result: Result<(), Box<Stop>>, sentence: &str, help: &str) {
    let stop = result.unwrap_err();
    assert_eq!((stop.blame, stop.kind), (Blame::Input, StopKind::Malformed), "{stop}");
    assert!(stop.sentence.ends_with(sentence), "{stop}");
    assert!(stop.help.as_ref().unwrap().contains(help), "{stop}");
    assert_eq!(stop.place.as_ref().unwrap().function, "k", "{stop}");
}

#[test]
fn an_instruction_that_the_target_does_not_have_is_refused() {
    let needs = "f32.e4m3.e4m3.f32` needs sm_89; the module's target is sm_80";
    refused(decode("8.7", "sm_80", "", FP8), needs, "compile for sm_89");
    // ptxas also rejects it if it is never executed.
    refused(decode("8.7", "sm_80", "", &format!("ret; {FP8}")), needs, "compile for sm_89");
    decode("8.7", "sm_89", "", FP8).unwrap();
    decode("8.7", "sm_90a", "", FP8).unwrap();
    refused(decode("8.7", "sm_80", "", "elect.sync %r0|%p, -1;"), "the module's target is sm_80", "sm_90");
}

#[test]
fn an_instruction_that_the_version_does_not_have_is_refused() {
    refused(decode("8.0", "sm_89", "", FP8), "needs PTX 8.4; the module is PTX 8.0", ".version");
}

#[test]
fn a_modifier_can_be_later_than_its_instruction() {
    let body = ".shared .u32 s; red.release.gpu.shared.add.u32 [s], 1;";
    refused(decode("8.7", "sm_60", "", body), "needs sm_70; the module's target is sm_60", "sm_70");
    decode("8.7", "sm_70", "", body).unwrap();
}

#[test]
fn features_of_one_architecture_need_its_own_target() {
    let body = "setmaxnreg.inc.sync.aligned.u32 96;";
    refused(decode("8.7", "sm_90", "", body), "needs sm_90a; the module's target is sm_90", "sm_90a");
    decode("8.7", "sm_90a", "", body).unwrap();
}

#[test]
fn functions_that_the_kernel_does_not_reach_do_not_matter() {
    let unused = ".func f() { .reg .b32 %r; .reg .pred %p; elect.sync %r|%p, -1; ret; }";
    decode("8.7", "sm_80", unused, "").unwrap();
    let stop = decode("8.7", "sm_80", unused, "call f;").unwrap_err();
    assert_eq!(stop.place.unwrap().function, "f");
}

/// The first PTX version of each target, as ptxas 13.4 accepts them.
#[test]
fn a_target_needs_its_version() {
    for (target, before, first) in [
        ("sm_100", "8.5", "8.6"),
        ("sm_100a", "8.5", "8.6"),
        ("sm_100f", "8.7", "8.8"),
        ("sm_103", "8.7", "8.8"),
        ("sm_103a", "8.7", "8.8"),
        ("sm_110", "8.8", "9.0"),
        ("sm_110f", "8.8", "9.0"),
        ("sm_120", "8.6", "8.7"),
        ("sm_120a", "8.6", "8.7"),
        ("sm_120f", "8.7", "8.8"),
        ("sm_121", "8.7", "8.8"),
        ("sm_121a", "8.7", "8.8"),
        ("sm_121f", "8.7", "8.8"),
    ] {
        let load = |version: &str| {
            let text = format!(
                ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
            );
            Device::new().load(&text).map(|_| ())
        };
        let stop = load(before).unwrap_err();
        assert_eq!((stop.blame, stop.kind), (Blame::Input, StopKind::Malformed), "{stop}");
        let sentence = format!("target {target} needs PTX {first}; the module is PTX {before}");
        assert_eq!(stop.sentence, sentence);
        load(first).unwrap();
        load("9.4").unwrap();
    }
}

#[test]
fn features_end_with_their_architectures() {
    let body = "redux.sync.max.f32 %f0, %f1, -1;";
    decode("9.0", "sm_100f", "", body).unwrap();
    decode("9.0", "sm_103a", "", body).unwrap();
    let needs = "needs sm_100a; the module's target is sm_120a";
    refused(decode("9.0", "sm_120a", "", body), needs, "a later architecture below sm_110");
    let wgmma = "wgmma.fence.sync.aligned;";
    decode("9.0", "sm_90a", "", wgmma).unwrap();
    let needs = "needs sm_90a; the module's target is sm_120a";
    refused(decode("9.0", "sm_120a", "", wgmma), needs, "no other architecture");
}
