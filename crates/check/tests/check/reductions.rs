//! Races of reductions of blocks that run on all cores.

use warpproof_check::{Check, CheckLaunch, Finding, Settings};
use warpproof_sim::Device;
use warpproof_sim::program::Communication;

/// The findings in a kernel of 70 blocks, with the instructions they name; the same for any number of threads.
fn findings(body: &str) -> Vec<(&'static str, Vec<String>)> {
    let ptx = format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b64 %out, %to, %all; .reg .b32 %t, %b; .reg .b32 %r<16>; .reg .pred %p<8>; .reg .f32 %f<4>; .reg .b16 %h<4>;\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mul.wide.u32 %to, %t, 4;\n\
         add.u64 %to, %out, %to; mul.wide.u32 %all, %b, 256; add.u64 %all, %to, %all;\n\
         setp.eq.u32 %p0, %t, 0; setp.eq.u32 %p1, %b, 65; setp.eq.u32 %p2, %b, 3; mov.f32 %f1, 0f3f800000;\n\
         {body}\nret;\n}}\n"
    );
    let checked = |threads| {
        let mut device = Device::new().with_threads(threads);
        let module = device.load(&ptx).unwrap();
        let out = device.alloc::<u32>(1 << 16).unwrap();
        let launch = module.kernel("k").unwrap().launch().grid(70).block(64).arg(out);
        assert_eq!(launch.program().communication, Communication::Reductions);
        let settings = Settings { checks: vec![Check::Race], ..Settings::default() };
        let checked = device.check(&launch, &settings);
        assert!(checked.outcome.stop.is_none());
        (checked.findings, device.read(&out).unwrap())
    };
    let first = checked(1);
    for threads in [2, 8] {
        let other = checked(threads);
        assert_eq!(format!("{:?}", first.0), format!("{:?}", other.0), "{threads} threads: {body}");
        assert_eq!(first.1, other.1);
    }
    let named = |finding: &Finding| {
        let places =
            finding.places.iter().map(|label| label.place.instruction.replace(" ;", "").replace(';', ""));
        let mut places: Vec<String> = places
            .map(|text| text.split_whitespace().find(|word| word.contains('.')).unwrap().to_owned())
            .collect();
        places.sort();
        (finding.class.name(), places)
    };
    first.0.iter().map(named).collect()
}

fn race(first: &str, second: &str) -> Vec<(&'static str, Vec<String>)> {
    vec![("global-race", vec![first.to_owned(), second.to_owned()])]
}

#[test]
fn atomics_of_several_blocks_do_not_race() {
    for body in [
        "red.global.add.f32 [%out], %f1;",
        "atom.global.add.u32 %r1, [%to], %t; red.global.max.u32 [%to], 5; red.global.add.f32 [%to+512], %f1;",
        "red.global.add.noftz.f16 [%out+2], %h1; red.global.add.noftz.f16 [%out], %h1;",
        // Blocks whose own words have other accesses too, ordered by a barrier.
        "st.global.u32 [%all], 0; bar.sync 0; red.global.add.u32 [%all], 1; bar.sync 0; ld.global.u32 %r1, [%all];",
        // Other bytes of the word.
        "and.pred %p3, %p0, %p1; @%p3 st.global.u16 [%out], 1; @!%p1 red.global.add.noftz.f16 [%out+2], %h1;",
        // A block that reads some bytes of a word, and writes others before an atomic; another block reads the first ones too.
        "and.pred %p3, %p0, %p2; @%p3 ld.global.u16 %h2, [%out]; @%p3 st.global.u16 [%out+2], %h2;\n\
         @%p3 red.global.add.noftz.f16 [%out+2], %h1; and.pred %p4, %p0, %p1; @%p4 ld.global.u16 %h3, [%out];\n\
         @%p4 st.global.u16 [%all+4096], %h3;",
    ] {
        assert_eq!(findings(body), [], "{body}");
    }
}

#[test]
fn ordinary_accesses_race_with_the_atomics_of_other_blocks() {
    let (add, load, store) = ("red.global.add.u32", "ld.global.u32", "st.global.u32");
    for (body, expected) in [
        // Before and after the block with the ordinary access.
        (
            "@%p1 ld.global.u32 %r1, [%out]; @!%p1 red.global.add.u32 [%out], 1; @%p1 st.global.u32 [%all+4096], %r1;",
            race(load, add),
        ),
        ("@%p2 st.global.u32 [%to], 7; @!%p2 red.global.add.u32 [%to], 1;", race(add, store)),
        ("@%p1 st.global.u32 [%to], 7; @!%p1 red.global.add.u32 [%to], 1;", race(add, store)),
        // The block reads what it and others added to.
        (
            "red.global.add.u32 [%to], 1; bar.sync 0; ld.global.u32 %r1, [%to]; st.global.u32 [%all+4096], %r1;",
            race(load, add),
        ),
        // A store that the block's own atomic is ordered after.
        (
            "setp.lt.u32 %p3, %b, 2; @%p2 bra FIRST; @!%p1 bra END;\nFIRST: st.global.u32 [%to], 0; bar.sync 0;\n\
          END: @!%p3 bra ADD; bra OUT;\nADD: red.global.add.u32 [%to], 1;\nOUT:",
            race(add, store),
        ),
    ] {
        let found = findings(body);
        let classes: Vec<_> =
            found.iter().filter(|finding| finding.1.contains(&add.to_owned())).cloned().collect();
        assert_eq!(classes, expected, "{body}\n{found:?}");
    }
    // Half of a word.
    let half = "@%p1 ld.global.u16 %h2, [%out+2]; @!%p1 red.global.add.noftz.f16 [%out+2], %h1;\n@%p1 st.global.u16 [%all+4096], %h2;";
    assert_eq!(findings(half), race("ld.global.u16", "red.global.add.noftz.f16"));
}

#[test]
fn atomics_of_the_scope_of_a_block_race_with_those_of_other_blocks() {
    let (narrow, wide) = ("red.relaxed.cta.global.add.u32", "red.relaxed.gpu.global.add.u32");
    assert_eq!(findings(&format!("{narrow} [%out], 1;")), race(narrow, narrow));
    assert_eq!(findings(&format!("@%p2 {narrow} [%out], 1; @!%p2 {wide} [%out], 1;")), race(narrow, wide));
    assert_eq!(findings(&format!("{narrow} [%all], 1; bar.sync 0; {wide} [%all], 1;")), []);
}
