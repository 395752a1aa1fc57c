//! What a kernel does and what is found do not depend on fast paths. Each test is a kernel for which they once did.

use warpproof_check::{Check, CheckLaunch, Finding, Settings};
use warpproof_sim::{Device, Level};

/// The findings of a kernel and the words that it stores, without fast paths and with those of any level. `%t` is the thread,
/// `%own` the address of its word of `tile`, and `%to` that of its word of the output.
fn done(body: &str, grid: u32, block: u32) -> (Vec<Finding>, Vec<u32>) {
    let text = format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b64 %out, %to, %d<8>; .reg .b32 %t, %own, %r<16>; .reg .f32 %f<16>; .reg .pred %p<4>; .reg .b16 %h<8>;\n\
         .shared .align 16 .b8 tile[2048];\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %to, %t, 4; add.u64 %to, %out, %to;\n\
         mov.u32 %own, tile; mad.lo.u32 %own, %t, 4, %own;\n{body}\nret;\n}}\n"
    );
    let run = |plain: bool, level: Level| {
        let mut device = Device::new().with_threads(1).with_level(level);
        device.plain = plain;
        let module = device.load(&text).unwrap_or_else(|stop| panic!("{text}: {stop}"));
        let out = device.alloc::<u32>(4096).unwrap();
        let launch = module.kernel("k").unwrap().launch().grid(grid).block(block).arg(out);
        let checks = Check::ALL.into_iter().filter(|check| *check != Check::Machine).collect();
        let checked = device.check(&launch, &Settings { checks, ..Settings::default() });
        (checked.findings, device.read(&out).unwrap())
    };
    let plain = run(true, Level::Portable);
    for level in Level::ALL {
        assert_eq!(run(false, level), plain, "{level:?}: {body}");
    }
    plain
}

#[test]
fn the_first_read_of_a_thread_stands_for_its_later_ones() {
    let body = "ld.shared.u32 %r1, [%own+4];\nld.shared.u32 %r2, [%own+4];\nst.shared.u32 [%own], %t;";
    let (races, _) = done(body, 1, 64);
    let names = |finding: &Finding, instruction: &str| {
        finding.places.iter().any(|label| label.place.instruction.contains(instruction))
    };
    let race = races.iter().find(|finding| names(finding, "st.shared")).unwrap();
    assert!(names(race, "%r1") && !races.iter().any(|finding| names(finding, "%r2")), "{races:?}");
}

#[test]
fn a_lane_that_does_not_exist_loads_no_part_of_a_matrix() {
    let body = "st.shared.u32 [%own], 7;\nmov.u32 %r3, tile;\n\
                ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r1, %r2}, [%r3];\nst.global.u32 [%to], %r2;";
    let (findings, words) = done(body, 1, 1);
    assert_eq!(words[0], 0);
    assert!(!findings.is_empty(), "all lanes of a warp must execute it");
}
