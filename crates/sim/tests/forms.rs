//! Compares the instruction table with the forms that ptxas accepts for sm_90a.
//!
//! `vectors/forms.txt` has three lists of instructions: those that must be executed, those that ptxas accepts and that must stop as
//! unsupported with a reason, and those of later architectures, which must be refused. The tests of `warpproof` (`compilers`)
//! assemble the lists with ptxas.

use warpproof_sim::{Blame, Device, Stop, isa};

/// What a module declares around the instruction.
const HEAD: &str = ".version 9.2\n.target sm_90a\n.address_size 64
.extern .shared .align 128 .b8 sm[];\n.global .align 128 .b8 gm[4096];\n.const .align 128 .b8 cm[256];
.visible .entry k(.param .align 128 .b8 par[256]) {\n.local .align 128 .b8 lm[256];
.reg .pred p<8>; .reg .b16 h<64>; .reg .b32 r<300>; .reg .b64 d<64>; .reg .f32 f<300>; .reg .f64 e<64>; .reg .b128 q<8>;
.reg .b8 c<8>;\n";

/// The instructions of a list.
fn list(title: &str) -> Vec<&'static str> {
    let text = include_str!("vectors/forms.txt");
    let lines = text.lines().skip_while(|line| !line.starts_with(&format!("# {title}"))).skip(1);
    let found: Vec<&str> = lines.take_while(|line| !line.starts_with('#')).collect();
    assert!(!found.is_empty(), "no list {title}");
    found
}

/// Launches one warpgroup that executes the instruction, with registers of zeros.
fn launch(instruction: &str) -> Result<(), Box<Stop>> {
    let mut device = Device::new().with_threads(1);
    device.limits.instructions = 10_000;
    let kernel = device.load(&format!("{HEAD}{instruction}\nret;\n}}\n"))?.kernel("k")?;
    let launch = kernel.launch().grid(1).block(128).shared(4096).arg(vec![0u8; 256]);
    launch.run(&mut device).map(|_| ())
}

/// Why the instruction is not executed; a stop of the kernel, such as an access out of bounds, is an execution.
fn refused(instruction: &str) -> Option<Box<Stop>> {
    let stop = launch(instruction).err()?;
    // Texture and surface instructions are supported, but zero is not a handle.
    let handle = stop.sentence.contains("is not a texture object")
        || stop.sentence.contains("is not a surface object");
    (matches!(stop.blame, Blame::Gap | Blame::Input | Blame::Bug) && !handle).then_some(stop)
}

#[test]
fn every_form_of_hopper_is_executed() {
    let all = list("executed");
    assert!(all.len() > 2000, "only {} forms", all.len());
    let wrong: Vec<String> =
        all.iter().filter_map(|line| refused(line).map(|stop| format!("{line} {stop}"))).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

#[test]
fn gaps_have_a_reason() {
    let mut wrong = Vec::new();
    for line in list("not supported") {
        match refused(line) {
            Some(stop) if stop.blame == Blame::Gap => {
                if stop.sentence.ends_with("is not supported") && stop.sentence.starts_with("the instruction")
                    || stop.sentence.contains("with these modifiers")
                {
                    wrong.push(format!("no reason: {line} {stop}"));
                }
            }
            Some(stop) => wrong.push(format!("not a gap: {line} {stop}")),
            None => wrong.push(format!("it is executed: {line}")),
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn forms_of_later_architectures_are_refused() {
    let executed: Vec<&str> = list("refused").into_iter().filter(|line| refused(line).is_none()).collect();
    assert!(executed.is_empty(), "{}:\n{}", executed.len(), executed.join("\n"));
}

/// A reason that no instruction of the list has is out of date.
#[test]
fn every_reason_is_used() {
    let lines: Vec<String> =
        ["not supported", "refused"].into_iter().flat_map(list).map(str::to_owned).collect();
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
