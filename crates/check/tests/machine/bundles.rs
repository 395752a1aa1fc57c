//! Bundles: a kernel does the same, with the same findings and counters, if a branch after every instruction leaves it none.

use std::fmt::Write as _;
use warpproof_check::{CheckLaunch, Settings};
use warpproof_count::{CountLaunch, CountSettings};
use warpproof_sim::{Device, Launch};

const WORDS: u32 = 512;

/// Pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap() % limit
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        let count = u32::try_from(choices.len()).unwrap();
        choices[usize::try_from(self.below(count)).unwrap()]
    }
}

/// Instructions on shared memory: phases of stores and loads, most of them with barriers in between. Addresses are in `%a0`
/// to `%a3` (32 bits) and `%w0` to `%w3` (64 bits): of one word, of consecutive words, of one word for each half of a warp, and with
/// gaps. Some seeds have loads that are misaligned, out of bounds, or race.
fn body(random: &mut Random) -> Vec<String> {
    let mut lines = Vec::new();
    let wild = random.below(4) == 0;
    for _ in 0..3 {
        let from = random.below(2) * 1024;
        lines.push(format!("st.shared.u32 [%mine+{from}], %x0;"));
        if random.below(8) > 0 {
            lines.push("bar.sync 0;".to_owned());
        }
        for _ in 0..4 + random.below(24) {
            let to = random.below(8);
            let base = format!("{}{}", random.of(&["%a", "%w"]), random.below(4));
            let far = 16 * random.below(40);
            let step = random.of(&[0, 4, 8, 64, 128, 512, 1024, far]);
            let offset = match random.below(20) {
                0 if wild => step + 2,
                1 if wild => step + 1400,
                _ => step,
            };
            if random.below(6) == 0 {
                lines.extend(sum(random, &base, offset, to));
                continue;
            }
            lines.push(match random.below(8) {
                0..4 => format!("ld.shared.u32 %x{to}, [{base}+{offset}];"),
                4 => format!("ld.shared.v2.u32 {{%x{to}, %y{to}}}, [%a3+{}];", offset & !0x4),
                5 => format!("ld.shared.v4.u32 {{%x{to}, %y1, %y2, %y3}}, [%w3+{}];", offset & !0xc),
                6 => format!("mad.lo.u32 %x{to}, %x{}, 33, %y{to};", random.below(8)),
                // Sometimes the address of the loads behind it.
                _ if random.below(3) == 0 => format!("xor.b32 %a{}, %a0, 64;", random.below(4)),
                _ => format!("xor.b32 %y{to}, %x{}, %x{to};", random.below(8)),
            });
        }
        if random.below(8) > 0 {
            lines.push("bar.sync 0;".to_owned());
        }
    }
    lines
}

/// A sum of products, whose factors are loaded for it; sometimes they, or a sum in between, are used again. Many are NaN: `%x7` has the
/// bits of one, and is stored by some kernels.
fn sum(random: &mut Random, base: &str, offset: u32, to: u32) -> Vec<String> {
    let mut lines = vec!["{ .reg .f32 %p<9>, %q<9>, %s<9>;".to_owned()];
    lines.push(format!("mov.b32 %s0, %x{};", random.below(8)));
    let terms = 1 + random.below(6);
    for term in 0..terms {
        let (other, step) = (random.below(3), random.of(&[0, 4, 64, 128, 1024]));
        let (first, second) = random.of(&[("p", "q"), ("q", "p")]);
        lines.push(format!("ld.shared.f32 %{first}{term}, [{base}+{offset}];"));
        lines.push(format!("ld.shared.f32 %{second}{term}, [%a{other}+{step}];"));
        let addend = if random.below(12) == 0 { format!("%p{term}") } else { format!("%s{term}") };
        lines.push(format!("fma.rn.f32 %s{}, %p{term}, %q{term}, {addend};", term + 1));
    }
    let used = match random.below(4) {
        0 => format!("%s{}", random.below(terms + 1)),
        1 => format!("%{}{}", random.of(&["p", "q"]), random.below(terms)),
        _ => format!("%s{terms}"),
    };
    lines.push(format!("mov.b32 %y{to}, {used};"));
    lines.push(format!("mov.b32 %x{to}, %s{terms}; }}"));
    lines
}

/// A kernel with these instructions, with or without a branch after each of them.
fn kernel(lines: &[String], apart: bool) -> String {
    let mut text = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b64 %out, %to, %w<4>; .reg .b32 %t, %lane, %mine, %sum, %a<4>, %x<8>, %y<8>;\n\
         .shared .align 16 .b8 tile[{}];\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; and.b32 %lane, %t, 31; mov.u32 %a0, tile;\n\
         mul.wide.u32 %to, %t, 4; add.u64 %to, %out, %to; mad.lo.u32 %mine, %t, 4, %a0;\n\
         mad.lo.u32 %a1, %lane, 4, %a0; shr.u32 %a2, %lane, 4; mad.lo.u32 %a2, %a2, 256, %a0;\n\
         mad.lo.u32 %a3, %lane, 16, %a0;\n",
        4 * WORDS
    );
    for i in 0..8 {
        writeln!(text, "mad.lo.u32 %x{i}, %t, {}, {i}; mov.u32 %y{i}, {i};", i + 3).unwrap();
    }
    text.push_str("or.b32 %x7, %x7, 0x7f900000;\n");
    for i in 0..4 {
        writeln!(text, "cvt.u64.u32 %w{i}, %a{i};").unwrap();
    }
    for (i, line) in lines.iter().enumerate() {
        writeln!(text, "{line}").unwrap();
        if apart {
            writeln!(text, "bra.uni L{i};\nL{i}:").unwrap();
        }
    }
    text.push_str("mov.u32 %sum, 0;\n");
    for i in 0..8 {
        writeln!(text, "mad.lo.u32 %sum, %sum, 5, %x{i}; add.u32 %sum, %sum, %y{i};").unwrap();
    }
    text.push_str("st.global.u32 [%to], %sum;\nret;\n}\n");
    text
}

/// What a kernel does: the words that it stores and why it stops, its findings, and its traffic.
fn observed(text: &str, threads: u32) -> [String; 3] {
    let prepare = || -> (Device, Launch, _) {
        let mut device = Device::new().with_threads(1);
        let module = device.load(text).unwrap_or_else(|stop| panic!("{text}: {stop}"));
        let out = device.alloc::<u32>(128).unwrap();
        let launch = module.kernel("k").unwrap().launch().block(threads).arg(out);
        (device, launch, out)
    };
    let (mut device, launch, out) = prepare();
    let stop = device.run(&launch).stop.map(|stop| stop.sentence);
    let ran = format!("{stop:?} {:?}", device.read(&out).unwrap());
    let (mut device, launch, out) = prepare();
    let checked = device.check(&launch, &Settings::default());
    let mut found = format!("{:?}", device.read(&out).unwrap());
    for finding in checked.findings {
        let place = |label: &warpproof_check::Label| label.place.instruction.clone();
        let places: Vec<String> = finding.places.iter().map(place).collect();
        writeln!(found, "{} {:?} {} {places:?}", finding.sentence, finding.notes, finding.count).unwrap();
    }
    let (mut device, launch, _) = prepare();
    let counters = device.count(&launch, &CountSettings::default()).counters;
    [ran, found, format!("{:?}", counters.totals.memory)]
}

#[test]
fn a_kernel_does_the_same_without_bundles() {
    let (mut stops, mut races) = (0, 0);
    for seed in 0..120 {
        let mut random = Random(seed);
        let lines = body(&mut random);
        let threads = random.of(&[128, 128, 96, 50]);
        let bundled = observed(&kernel(&lines, false), threads);
        let apart = observed(&kernel(&lines, true), threads);
        stops += u32::from(bundled[0].starts_with("Some"));
        races += u32::from(bundled[1].contains("race"));
        for (what, (bundled, apart)) in ["run", "check", "count"].iter().zip(bundled.iter().zip(&apart)) {
            assert_eq!(bundled, apart, "seed {seed}, {what}:\n{}", kernel(&lines, false));
        }
    }
    assert!(stops > 5 && races > 20, "{stops} kernels stop, {races} race");
}
