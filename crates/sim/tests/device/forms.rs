//! Compares the instruction table with the forms that ptxas accepts.
//!
//! `vectors/forms.txt` has lists of instructions. For sm_90a: those that must be executed, those that ptxas accepts and that must
//! stop as unsupported with a reason, and those of later architectures, which must be refused. For sm_100a and sm_120a: the forms
//! that sm_90a does not have, executed or unsupported. The tests of `warpproof` (`compilers`) assemble the lists with ptxas.

use warpproof_sim::{Blame, Device, Stop, isa};

/// What a module declares around the instruction.
const HEAD: &str = ".version 9.2\n.target sm_90a\n.address_size 64
.extern .shared .align 128 .b8 sm[];\n.global .align 128 .b8 gm[4096];\n.const .align 128 .b8 cm[256];
.visible .entry k(.param .align 128 .b8 par[256]) {\n.local .align 128 .b8 lm[256];
.reg .pred p<8>; .reg .b16 h<64>; .reg .b32 r<300>; .reg .b64 d<64>; .reg .f32 f<300>; .reg .f64 e<64>; .reg .b128 q<8>;
.reg .b8 c<8>;\n";

/// The architectures, and what comes before the titles of their lists.
const TARGETS: [(&str, &str); 3] = [("sm_90a", ""), ("sm_100a", "sm_100a: "), ("sm_120a", "sm_120a: ")];

/// The instructions of a list.
fn list(title: &str) -> Vec<&'static str> {
    let text = include_str!("../vectors/forms.txt");
    let lines = text.lines().skip_while(|line| !line.starts_with(&format!("# {title}"))).skip(1);
    let found: Vec<&str> = lines.take_while(|line| !line.starts_with('#')).collect();
    assert!(!found.is_empty(), "no list {title}");
    found
}

/// Launches one warpgroup that executes the instruction, with registers of zeros.
fn launch(target: &str, instruction: &str) -> Result<(), Box<Stop>> {
    let mut device = Device::new().with_threads(1);
    device.limits.instructions = 10_000;
    let head = HEAD.replace("sm_90a", target);
    let kernel = device.load(&format!("{head}{instruction}\nret;\n}}\n"))?.kernel("k")?;
    let launch = kernel.launch().grid(1).block(128).shared(4096).arg(vec![0u8; 256]);
    launch.run(&mut device).map(|_| ())
}

/// Why the instruction is not executed; a stop of the kernel, such as an access out of bounds, is an execution.
fn refused(target: &str, instruction: &str) -> Option<Box<Stop>> {
    let stop = launch(target, instruction).err()?;
    // Texture and surface instructions are supported, but zero is not a handle.
    let handle = stop.sentence.contains("is not a texture object")
        || stop.sentence.contains("is not a surface object");
    (matches!(stop.blame, Blame::Gap | Blame::Input | Blame::Bug) && !handle).then_some(stop)
}

/// Whether a stop names what is not supported and why.
fn has_reason(stop: &Stop) -> bool {
    let general =
        stop.sentence.ends_with("` is not supported") && stop.sentence.starts_with("the instruction");
    stop.blame == Blame::Gap && !general && !stop.sentence.contains("with these modifiers")
}

#[track_caller]
fn all_are_executed(target: &str, title: &str, least: usize) {
    let all = list(title);
    assert!(all.len() > least, "only {} forms", all.len());
    let wrong: Vec<String> = all
        .iter()
        .filter_map(|line| refused(target, line).map(|stop| format!("{target} {line} {stop}")))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

#[test]
fn every_form_of_hopper_is_executed() {
    all_are_executed("sm_90a", "executed", 2000);
}

#[test]
fn every_form_of_data_center_blackwell_is_executed() {
    all_are_executed("sm_100a", "sm_100a: executed", 1000);
}

#[test]
fn every_form_of_consumer_blackwell_is_executed() {
    all_are_executed("sm_120a", "sm_120a: executed", 800);
}

#[test]
fn gaps_have_a_reason() {
    let mut wrong = Vec::new();
    for (target, prefix) in TARGETS {
        for line in list(&format!("{prefix}not supported")) {
            match refused(target, line) {
                Some(stop) if has_reason(&stop) => {}
                Some(stop) => wrong.push(format!("no reason: {target} {line} {stop}")),
                None => wrong.push(format!("it is executed: {target} {line}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn forms_of_later_architectures_are_refused() {
    let executed: Vec<&str> =
        list("refused").into_iter().filter(|line| refused("sm_90a", line).is_none()).collect();
    assert!(executed.is_empty(), "{}:\n{}", executed.len(), executed.join("\n"));
}

/// A reason that no instruction of the lists has is out of date.
#[test]
fn every_reason_is_used() {
    let titles = TARGETS.map(|(_, prefix)| format!("{prefix}not supported"));
    let lines: Vec<&str> = titles.iter().map(String::as_str).chain(["refused"]).flat_map(list).collect();
    for gap in isa::gaps::GAPS {
        let used = lines.iter().any(|line| {
            let spelled = line.split([' ', ';']).next().unwrap_or_default();
            let mut words = spelled.split('.');
            let opcode = words.next().unwrap_or_default();
            let modifiers: Vec<&str> = words.collect();
            gap.opcode == opcode && isa::gaps::reason(opcode, &modifiers) == Some(gap.reason)
        });
        assert!(used, "{}: {}", gap.opcode, gap.reason);
    }
}
