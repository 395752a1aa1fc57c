//! For every module and launch, the device and its checks do not panic, stop at their limits and are deterministic, and the
//! checks do not change the outcome. Without fast paths, both are the same.
//!
//! The fuzzer's bytes are choices: which instructions of the table, which operands, which control flow, which launch.
//! Text that starts like PTX is run unchanged, so the seeds of the other targets also work here. Some inputs choose a kernel of
//! `cargo xtask plain`, which is compared in more detail.
#![no_main]

#[path = "../../xtask/src/plain/trial/mod.rs"]
#[allow(dead_code, reason = "the study needs more of it")]
mod trial;

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::fmt::Write as _;
use std::sync::LazyLock;
use warpproof_check::{CheckLaunch, BufferRole, Role, Settings};
use warpproof_sim::isa::{self, Shape, Slot, Spec};
use warpproof_sim::machine::{Type, Width};
use warpproof_sim::schedule::{Blocks, CopyTiming, Order, Schedule};
use warpproof_sim::tensor_map::{DataType, Swizzle, TensorMap};
use warpproof_sim::{Blame, Device, Level, Limits, StopKind};

fuzz_target!(|data: &[u8]| {
    if let Some((b'?', rest)) = data.split_first() {
        let trial = trial::Trial::new(&mut trial::Choices::new(rest, 0));
        if let Err(difference) = trial.compare() {
            panic!("fast paths change the {difference}\n{trial}\n{}", trial.text());
        }
        return;
    }
    let mut choices = Unstructured::new(data);
    let written = if data.first().is_some_and(|byte| matches!(byte, b'.' | b'/' | b'\n' | b' ')) {
        Ok(Case { text: String::from_utf8_lossy(data).into_owned(), launch: Geometry::default() })
    } else {
        case(&mut choices)
    };
    let Ok(case) = written else { return };
    if std::env::var_os("WARPPROOF_FUZZ_SHOW").is_some() {
        eprintln!("{}\n{:?}", case.text, case.launch);
    }
    let (one, _) = execute(&case, Host::Threads(1), false);
    if std::env::var_os("WARPPROOF_FUZZ_SHOW").is_some() {
        one.iter().for_each(|ran| eprintln!("{} instructions; {}", ran.instructions, ran.report));
    }
    assert_eq!(one, execute(&case, Host::Threads(2), false).0, "one thread and two disagree on\n{}", case.text);
    let (checked, findings) = execute(&case, Host::Threads(2), true);
    assert_eq!(one, checked, "checks change the outcome of\n{}", case.text);
    let (plain, expected) = execute(&case, Host::Plain, true);
    assert_eq!(one, plain, "fast paths change the outcome of\n{}", case.text);
    assert_eq!(findings, expected, "fast paths change the findings in\n{}", case.text);
    if case.launch.again {
        assert_eq!(one, execute(&case, Host::Threads(1), false).0, "two runs disagree on\n{}", case.text);
        let (_, again) = execute(&case, Host::Threads(1), true);
        assert_eq!(findings, again, "one thread and two report different findings in\n{}", case.text);
    }
});

struct Case {
    text: String,
    launch: Geometry,
}

#[derive(Debug)]
struct Geometry {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    schedule: Schedule,
    wrong_arguments: bool,
    again: bool,
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry {
            grid: [3, 1, 1],
            block: [64, 1, 1],
            shared: 1024,
            schedule: Schedule::default(),
            wrong_arguments: false,
            again: false,
        }
    }
}

/// Everything that a launch did.
#[derive(Debug, PartialEq)]
struct Ran {
    report: String,
    instructions: u64,
    output: Vec<u8>,
    memory: Vec<(u64, Vec<u8>)>,
}

const LIMITS: Limits = Limits { instructions: 20_000, stack: 16 * 1024, output: 4096, memory: 1 << 30 };
const KERNELS: usize = 2;

/// How the host executes a kernel.
#[derive(Clone, Copy)]
enum Host {
    /// On this number of threads.
    Threads(usize),
    /// Without fast paths.
    Plain,
}

/// Runs the kernels of a case, with checks or without, and returns their effects and the findings.
fn execute(case: &Case, host: Host, checked: bool) -> (Vec<Ran>, Vec<String>) {
    let level = if cfg!(feature = "simd") { Level::detect() } else { Level::Portable };
    let mut device = Device::new().with_memory(1 << 20).with_level(level);
    match host {
        Host::Threads(threads) => device = device.with_threads(threads),
        Host::Plain => device.plain = true,
    }
    device.limits = LIMITS;
    device.schedule = case.launch.schedule;
    let refused = |stop: &warpproof_sim::Stop| {
        assert!(stop.blame != Blame::Bug && stop.kind != StopKind::Internal, "{stop}\n{}", case.text);
        Ran { report: stop.to_string(), instructions: 0, output: Vec::new(), memory: Vec::new() }
    };
    let module = match device.load(&case.text) {
        Ok(module) => module,
        Err(stop) => return (vec![refused(&stop)], Vec::new()),
    };
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    for name in module.kernels().iter().take(KERNELS) {
        let kernel = match module.kernel(name) {
            Ok(kernel) => kernel,
            Err(stop) => {
                all.push(refused(&stop));
                continue;
            }
        };
        let mut launch =
            kernel.launch().grid(case.launch.grid).block(case.launch.block).shared(case.launch.shared);
        let mut settings = Settings::default();
        for (i, parameter) in kernel.program().params.iter().enumerate() {
            let mut bytes = match device.alloc::<u8>(4096) {
                Ok(buffer) if parameter.size == 8 => {
                    settings.buffers.push(role(i, buffer.address()));
                    buffer.address().to_le_bytes().to_vec()
                }
                Ok(buffer) if parameter.size == 128 => map(i, buffer.address()),
                _ => vec![u8::try_from(i & 7).unwrap_or(0); usize::try_from(parameter.size).unwrap_or(0)],
            };
            if case.launch.wrong_arguments {
                bytes.push(0);
            }
            launch = launch.arg(bytes);
        }
        let outcome = if checked {
            let checked = device.check(&launch, &settings);
            findings.extend(checked.findings.iter().map(ToString::to_string));
            checked.outcome
        } else {
            device.run(&launch)
        };
        let mut ran = match &outcome.stop {
            Some(stop) => refused(stop),
            None => Ran { report: String::new(), instructions: 0, output: Vec::new(), memory: Vec::new() },
        };
        assert!(outcome.instructions <= LIMITS.instructions * 2, "{} instructions", outcome.instructions);
        ran.instructions = outcome.instructions;
        ran.output = outcome.output;
        ran.memory = device.memory().allocations().iter().map(|a| (a.base, a.bytes.to_vec())).collect();
        all.push(ran);
    }
    (all, findings)
}

/// The bytes of the tensor map that the kernel has as this parameter: `m1`, of one dimension, is the fourth.
fn map(number: usize, address: u64) -> Vec<u8> {
    let rank = number.saturating_sub(3) % 5 + 1;
    let swizzles = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];
    let (dims, sizes) = (&[64, 4, 4, 2, 2][..rank], &[16, 2, 3, 1, 2][..rank]);
    let mut map = TensorMap::tiled([DataType::Uint8, DataType::Float16][number % 2], address, dims, sizes);
    map.swizzle = swizzles[number % 4];
    map.pack().to_vec()
}

/// A buffer of 4096 bytes in one of several address spaces.
fn role(number: usize, address: u64) -> BufferRole {
    let role = [Role::In, Role::Out, Role::InOut, Role::Scratch][number % 4];
    let element = [1, 2, 4][number / 4 % 3];
    BufferRole {
        name: format!("b{number}"),
        address,
        element,
        extents: vec![64, 64 / u64::from(element)],
        role,
        initialized: role != Role::Out,
    }
}

/// Every spelling of every form.
static SPELLINGS: LazyLock<Vec<(&'static str, &'static str, Vec<&'static str>)>> = LazyLock::new(|| {
    let spell = |entry: &'static isa::Entry| {
        entry
            .form
            .spellings()
            .into_iter()
            .map(|modifiers| (entry.form.opcode, entry.form.operands, modifiers))
    };
    isa::table().iter().flat_map(spell).collect()
});

const TARGETS: [&str; 5] = ["sm_89", "sm_90a", "sm_75", "sm_100a", "sm_120a"];

fn case(choices: &mut Unstructured<'_>) -> Result<Case> {
    let mut module = Writer { text: String::new(), labels: 0, depth: 0, budget: 0, function: false };
    writeln!(module.text, ".version 8.7\n.target {}\n.address_size 64", choices.choose(&TARGETS)?).ok();
    module.variables(choices)?;
    let functions = choices.int_in_range(0..=2)?;
    for i in 0..functions {
        module.text += &format!(".func (.param .b32 r) f{i}(.param .b32 a, .param .b64 b);\n");
    }
    if functions > 0 {
        module.text += ".global .u64 pointers[2] = {f0, f0};\n";
    }
    module.text += ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n";
    module.text +=
        ".extern .func (.param .b64 r) malloc(.param .b64 a);\n.extern .func free(.param .b64 a);\n";
    module.budget = 48;
    module.text += ".visible .entry k(.param .u64 in, .param .u64 out, .param .b32 n";
    for i in 1..=5 {
        module.text += &format!(", .param .align 64 .b8 m{i}[128]");
    }
    module.text += ") {\n";
    module.registers();
    module.body(choices, functions)?;
    module.text += "ret;\n}\n";
    module.function = true;
    for i in 0..functions {
        module.budget = 16;
        write!(module.text, ".func (.param .b32 r) f{i}(.param .b32 a, .param .b64 b) {{\n").ok();
        module.registers();
        module.text += "ld.param.b32 %r4, [a];\nadd.u32 %r5, %r4, 1;\n";
        module.body(choices, functions)?;
        module.text += "st.param.b32 [r], %r5;\nret;\n}\n";
    }
    let mut text = module.text;
    if choices.ratio(1, 16)? {
        text = mutated(text.into_bytes(), choices)?;
    }
    Ok(Case { text, launch: geometry(choices)? })
}

fn mutated(mut bytes: Vec<u8>, choices: &mut Unstructured<'_>) -> Result<String> {
    for _ in 0..choices.int_in_range(1..=8)? {
        let at = choices.choose_index(bytes.len())?;
        match choices.int_in_range(0..=3)? {
            0 => bytes[at] = choices.arbitrary()?,
            1 => drop(bytes.remove(at)),
            2 => {
                let end = (at + choices.int_in_range(1..=40)?).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes[at] = *choices.choose(b"0123456789.%,;{}[]()<>-")?,
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn geometry(choices: &mut Unstructured<'_>) -> Result<Geometry> {
    const GRIDS: [[u32; 3]; 8] = [
        [1, 1, 1],
        [2, 1, 1],
        [3, 2, 1],
        [65, 1, 1],
        [2, 3, 4],
        [0x7fff_ffff, 1, 1],
        [1, 65_535, 65_535],
        [0, 1, 1],
    ];
    const BLOCKS: [[u32; 3]; 8] =
        [[32, 1, 1], [1, 1, 1], [33, 1, 1], [64, 1, 1], [7, 5, 3], [256, 1, 1], [1024, 1, 1], [2, 1, 65]];
    const SHARED: [u32; 6] = [0, 16, 4096, 40_000, 100_000, u32::MAX];
    let order = match choices.int_in_range(0..=2)? {
        0 => Order::Forward,
        1 => Order::Reverse,
        _ => Order::Random(choices.arbitrary()?),
    };
    let copies = if choices.arbitrary()? { CopyTiming::Early } else { CopyTiming::Late };
    let quantum = *choices.choose(&[4096, 1, 7, 0, u64::MAX])?;
    let blocks = if choices.arbitrary()? {
        Blocks::InOrder
    } else {
        let together = *choices.choose(&[0, 1, 2, 64, u32::MAX])?;
        Blocks::Interleaved { seed: choices.arbitrary()?, together, turn: quantum }
    };
    Ok(Geometry {
        grid: *choices.choose(&GRIDS)?,
        block: *choices.choose(&BLOCKS)?,
        shared: *choices.choose(&SHARED)?,
        schedule: Schedule { order, quantum, copies, blocks },
        wrong_arguments: choices.ratio(1, 32)?,
        again: choices.ratio(1, 8)?,
    })
}

/// Writes a module, choice by choice.
struct Writer {
    text: String,
    labels: u32,
    depth: u32,
    /// Remaining number of statements of the function.
    budget: u32,
    function: bool,
}

impl Writer {
    fn variables(&mut self, choices: &mut Unstructured<'_>) -> Result<()> {
        let size = *choices.choose(&["1024", "64", "0xffff", "4294967295", "18446744073709551615", "0"])?;
        let usual = choices.ratio(15, 16)?;
        let odd = |usual_size: &'static str| if usual { usual_size } else { size };
        let value: i32 = choices.arbitrary()?;
        write!(
            self.text,
            ".global .align 16 .b8 g[{}];\n.global .b32 words[8] = {{1, {value}, 3}};\n\
             .global .f64 reals[2][2] = {{{{1.5}}, {{0d3FF0000000000000, -2}}}};\n\
             .const .align 8 .b8 c[{}] = {{1, 2, 3}};\n.shared .align 16 .b8 s[{}];\n\
             .extern .shared .align 16 .b8 dynamic[];\n.global .b8 format[32] = {{",
            odd("2048"),
            odd("256"),
            odd("2048")
        )
        .ok();
        let length = choices.int_in_range(1..=24)?;
        for _ in 0..length {
            write!(self.text, "{}, ", choices.choose(b"%%%dsxfgec0123*.-+#l a\n")?).ok();
        }
        self.text += "0};\n";
        Ok(())
    }

    fn registers(&mut self) {
        self.text += ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<24>; .reg .b64 %rd<12>; .reg .b128 %q<4>;\n\
            .reg .f32 %f<4>; .reg .f64 %fd<4>; .reg .b32 %n; .local .align 16 .b8 l[64];\n\
            .param .b32 pr; .param .b32 pa; .param .b64 pb; .param .b64 pc;\n\
            mov.u32 %r0, %tid.x; mov.u32 %r1, s; mul.wide.u32 %rd1, %r0, 16; shl.b32 %r2, %r0, 4;\n\
            and.b32 %r2, %r2, 1008; add.u32 %r1, %r1, %r2; mov.u64 %rd0, g; and.b64 %rd1, %rd1, 1008;\n\
            add.u64 %rd1, %rd0, %rd1; mov.u64 %rd2, s; cvta.shared.u64 %rd2, %rd2; mov.u64 %rd3, words;\n\
            and.b32 %r3, %r0, 3; setp.eq.u32 %p0, %r3, 1; setp.gt.u32 %p1, %r0, 7; mov.u32 %n, 0;\n";
        if !self.function {
            self.text += "ld.param.u64 %rd4, [in]; ld.param.u64 %rd5, [out]; ld.param.b32 %r4, [n];\n";
        }
    }

    fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    fn body(&mut self, choices: &mut Unstructured<'_>, functions: u32) -> Result<()> {
        while self.budget > 0 && !choices.is_empty() {
            self.budget -= 1;
            if choices.ratio(1, 12)? {
                break;
            }
            if choices.ratio(2, 3)? {
                self.instruction(choices)?;
            } else {
                self.flow(choices, functions)?;
            }
        }
        Ok(())
    }

    fn nested(&mut self, choices: &mut Unstructured<'_>, functions: u32) -> Result<()> {
        if self.depth < 4 {
            self.depth += 1;
            self.body(choices, functions)?;
            self.depth -= 1;
        }
        Ok(())
    }

    fn guard(&mut self, choices: &mut Unstructured<'_>) -> Result<()> {
        if choices.ratio(1, 3)? {
            let not = if choices.arbitrary()? { "!" } else { "" };
            write!(self.text, "@{not}%p{} ", choices.int_in_range(0..=3)?).ok();
        }
        Ok(())
    }

    fn flow(&mut self, choices: &mut Unstructured<'_>, functions: u32) -> Result<()> {
        let label = self.label();
        match choices.int_in_range(0..=11)? {
            0 => {
                let predicate = choices.int_in_range(0..=3)?;
                write!(self.text, "@%p{predicate} bra L{label};\n").ok();
                self.nested(choices, functions)?;
                write!(self.text, "L{label}:\n").ok();
            }
            1 => {
                let (one, other) = (self.label(), self.label());
                write!(self.text, "@%p0 bra L{one};\n").ok();
                self.nested(choices, functions)?;
                write!(self.text, "bra L{other};\nL{one}:\n").ok();
                self.nested(choices, functions)?;
                write!(self.text, "L{other}:\n").ok();
            }
            2 => {
                let times = choices.int_in_range(1..=9)?;
                let bound = *choices.choose(&["%r0", "4", "%r3", "-1"])?;
                write!(self.text, "mov.u32 %r{}, 0;\nL{label}:\n", 16 + self.depth).ok();
                self.nested(choices, functions)?;
                let counter = 16 + self.depth;
                write!(
                    self.text,
                    "add.u32 %r{counter}, %r{counter}, {times}; setp.lt.u32 %p7, %r{counter}, {bound}; @%p7 bra L{label};\n"
                )
                .ok();
            }
            3 => {
                let target = choices.int_in_range(0..=self.labels)?;
                self.guard(choices)?;
                write!(self.text, "bra L{target};\nL{label}:\n").ok();
            }
            4 => {
                write!(
                    self.text,
                    "T{label}: .branchtargets A{label}, B{label};\nbrx.idx %r{}, T{label};\nA{label}:\n",
                    choices.choose(&[3, 0, 4])?
                )
                .ok();
                self.nested(choices, functions)?;
                write!(self.text, "B{label}:\n").ok();
            }
            5 | 6 if functions > 0 => {
                let callee = choices.int_in_range(0..=functions)?;
                let argument = choices.int_in_range(0..=15)?;
                write!(self.text, "st.param.b32 [pa], %r{argument}; st.param.b64 [pb], %rd0;\n").ok();
                self.guard(choices)?;
                write!(self.text, "call (pr), f{callee}, (pa, pb);\nld.param.b32 %r5, [pr];\n").ok();
            }
            7 if functions > 0 => {
                let wide = *choices.choose(&["b64", "b32", "b128"])?;
                write!(
                    self.text,
                    "ld.global.u64 %rd6, [pointers];\nP{label}: .callprototype (.param .b32 _) _ (.param .b32 _, .param .{wide} _);\n"
                )
                .ok();
                self.guard(choices)?;
                let pointer = choices.choose(&[6, 0])?;
                write!(self.text, "call (pr), %rd{pointer}, (pa, pb), P{label};\n").ok();
            }
            8 => {
                self.text += "mov.u64 %rd7, format; cvta.global.u64 %rd7, %rd7; st.param.b64 [pb], %rd7;\n";
                write!(self.text, "st.param.b64 [pc], %rd{};\n", choices.int_in_range(0..=5)?).ok();
                self.guard(choices)?;
                self.text += "call (pr), vprintf, (pb, pc);\n";
            }
            9 => {
                write!(
                    self.text,
                    "mov.u64 %rd8, {}; st.param.b64 [pb], %rd8;\n",
                    choices.choose(&[64, 0, 1 << 19])?
                )
                .ok();
                self.guard(choices)?;
                self.text += "call (pc), malloc, (pb);\nld.param.b64 %rd9, [pc];\n";
                if choices.arbitrary()? {
                    self.text += "st.param.b64 [pb], %rd9;\ncall free, (pb);\n";
                }
            }
            10 => {
                self.guard(choices)?;
                let end = choices.choose(&[
                    "exit;\n",
                    "ret;\n",
                    "trap;\n",
                    "bar.sync 0;\n",
                    "bar.sync 1, 64;\n",
                    "bar.arrive 2, 64;\n",
                    "bar.warp.sync -1;\n",
                    "barrier.cluster.arrive;\n",
                    "barrier.cluster.wait;\n",
                    "barrier.sync %r3;\n",
                    "bar.sync %r0, 32;\n",
                ])?;
                self.text += end;
            }
            _ => {
                self.text += "{\n.reg .b32 %r<8>; .local .b32 l[4]; .shared .b64 inner[3];\n";
                self.nested(choices, functions)?;
                self.text += "}\n";
            }
        }
        Ok(())
    }

    fn instruction(&mut self, choices: &mut Unstructured<'_>) -> Result<()> {
        let (opcode, operands, modifiers) = choices.choose(&SPELLINGS)?;
        if matches!(*opcode, "call" | "bra" | "brx" | "ret" | "exit" | "trap") {
            return self.flow(choices, 0);
        }
        let drafts = drafts(operands, modifiers, choices)?;
        let (mut written, shapes): (Vec<String>, Vec<Shape>) = drafts.into_iter().unzip();
        // The table entry defines the operands, so that most instructions are valid.
        if let Ok((entry, matched)) = isa::find(opcode, modifiers) {
            let spec = Spec { modifiers: matched, operands: shapes.clone(), sm: 89, used: u32::MAX };
            match isa::table()[entry].definition.bind.at(Level::Portable)(&spec) {
                Ok(bound) => {
                    written.truncate(bound.slots.len());
                    for (i, slot) in bound.slots.iter().enumerate() {
                        let draft = written.get(i).cloned().unwrap_or_else(|| "%r6".into());
                        let text = operand(slot, shapes.get(i), draft, modifiers, choices)?;
                        match written.get_mut(i) {
                            Some(old) => *old = text,
                            None => written.push(text),
                        }
                    }
                }
                // An instruction that cannot be bound ends the run: useful, but only sometimes.
                Err(_) if choices.ratio(15, 16)? => return Ok(()),
                Err(_) => {}
            }
        }
        self.guard(choices)?;
        self.text += opcode;
        for modifier in modifiers {
            self.text.push('.');
            self.text += modifier;
        }
        self.text.push(' ');
        self.text += &written.join(", ");
        self.text += ";\n";
        Ok(())
    }
}

/// Operands as the form lists them, with their shapes; only a guess, which `bind` checks.
fn drafts(list: &str, modifiers: &[&str], choices: &mut Unstructured<'_>) -> Result<Vec<(String, Shape)>> {
    let types: Vec<Type> = modifiers.iter().filter_map(|modifier| Type::parse(modifier)).collect();
    let mut out = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let optional = rest.starts_with('{') && rest[1..].trim_start().starts_with(',');
        let piece = rest.trim_start_matches(['{', ',', ' ']);
        // A comma in brackets separates a texture from its coordinates.
        let inside = if piece.starts_with('[') { piece.find(']').unwrap_or(0) } else { 0 };
        let ends: &[char] = if inside > 0 { &[',', '}', '{'] } else { &[',', '}'] };
        let end = piece[inside..].find(ends).map(|end| inside + end);
        let end = end.filter(|end| !piece[..*end].starts_with('!')).unwrap_or(piece.len());
        let (name, tail) =
            piece.split_at(if piece.starts_with('!') { piece.find(',').unwrap_or(piece.len()) } else { end });
        rest = tail.trim_start_matches('}');
        if rest == "," {
            break;
        }
        if optional && choices.arbitrary()? {
            continue;
        }
        let ty = match (out.len(), types.as_slice()) {
            (_, []) => Type::B32,
            (0, all) => all[0],
            (_, all) => all[choices.choose_index(all.len())?],
        };
        if name.starts_with('[') && name.contains(',') {
            let tensor = modifiers.contains(&"tensor");
            let count = match modifiers.iter().find(|name| name.ends_with('d') || name.ends_with("cube")) {
                Some(&"1d") => 1,
                Some(&"2d" | &"a1d") => 2,
                Some(&"3d") if tensor => 3,
                Some(&"5d") => 5,
                _ => 4,
            };
            let shape = Shape::Image(vec![Shape::Vector(vec![Shape::Register(32); count])]);
            out.push((image(&vec![Type::B32; count], choices)?, shape));
        } else if name.contains('[') && !name.contains('|') {
            out.push((address(modifiers, choices)?, Shape::Address));
        } else if name.starts_with('!') {
            out.push((format!("%p{}", choices.int_in_range(0..=3)?), Shape::Register(1)));
        } else if choices.ratio(1, 6)? {
            let value = *choices.choose(&[0i64, 1, 4, 8, 16, 31, 32, -1, 255])?;
            out.push((value.to_string(), Shape::Integer(value)));
        } else {
            let count = match choices.int_in_range(0..=5)? {
                _ if modifiers.contains(&"v2") => 2,
                _ if modifiers.contains(&"v4") => 4,
                _ if modifiers.contains(&"v8") => 8,
                0 => *choices.choose(&[2, 4, 8, 1])?,
                _ => 0,
            };
            let bits = bits(ty);
            if count == 0 {
                out.push((register(bits, out.is_empty(), choices)?, Shape::Register(bits)));
            } else {
                let first = out.is_empty();
                let items = (0..count)
                    .map(|_| register(bits, first, choices))
                    .collect::<Result<Vec<_>>>()?
                    .join(", ");
                out.push((format!("{{{items}}}"), Shape::Vector(vec![Shape::Register(bits); count])));
            }
        }
    }
    Ok(out)
}

fn bits(ty: Type) -> u32 {
    match ty.width() {
        Width::Pred => 1,
        Width::W64 => 64,
        Width::W128 => 128,
        Width::W32 if format!("{ty:?}").ends_with("16") => 16,
        Width::W32 => 32,
    }
}

/// A register; the first few, which hold addresses and conditions, are rarely written.
fn register(bits: u32, written: bool, choices: &mut Unstructured<'_>) -> Result<String> {
    let (name, count) = match bits {
        1 => ("%p", 7),
        16 => ("%h", 7),
        32 => ("%r", 15),
        64 => ("%rd", 11),
        _ => ("%q", 3),
    };
    let keep = if written && choices.ratio(15, 16)? { count / 2 } else { 0 };
    Ok(format!("{name}{}", choices.int_in_range(keep..=count)?))
}

fn address(modifiers: &[&str], choices: &mut Unstructured<'_>) -> Result<String> {
    let shared = modifiers.iter().any(|modifier| modifier.starts_with("shared"));
    let space = |name: &str| modifiers.contains(&name);
    let base = if choices.ratio(1, 24)? {
        *choices.choose(&["%r0", "%rd8", "%rd10", "nothing", "%p0", "%h0", "dynamic", "-16", "4294967296"])?
    } else if shared {
        *choices.choose(&["%r1", "s", "dynamic", "%r1"])?
    } else if space("local") {
        "l"
    } else if space("const") {
        "c"
    } else if space("param") {
        *choices.choose(&["pa", "pb", "in"])?
    } else if space("global") {
        *choices.choose(&["%rd1", "%rd0", "g", "words", "%rd5"])?
    } else {
        *choices.choose(&["%rd1", "%rd2", "%rd0", "%rd5"])?
    };
    Ok(match choices.int_in_range(0..=7)? {
        0 => format!("[{base}+{}]", choices.choose(&[4, 8, 16, 32, 1, -16, 1_000_000, i64::MAX])?),
        1 => format!("[{base}+16]"),
        _ => format!("[{base}]"),
    })
}

/// `[handle, {x, y}]`, or `[handle]` without coordinates.
fn image(types: &[Type], choices: &mut Unstructured<'_>) -> Result<String> {
    let handle = register(64, false, choices)?;
    if types.is_empty() {
        return Ok(format!("[{handle}]"));
    }
    let mut items = Vec::new();
    for _ in types {
        items.push(register(32, false, choices)?);
    }
    Ok(format!("[{handle}, {{{}}}]", items.join(", ")))
}

/// The text of an operand that fits its slot.
fn operand(
    slot: &Slot,
    shape: Option<&Shape>,
    draft: String,
    modifiers: &[&str],
    choices: &mut Unstructured<'_>,
) -> Result<String> {
    if choices.ratio(1, 200)? {
        return Ok(draft);
    }
    let narrow = |width: Width, choices: &mut Unstructured<'_>| -> Result<u32> {
        Ok(match width {
            Width::Pred => 1,
            Width::W64 => 64,
            Width::W128 => 128,
            Width::W32 if choices.ratio(1, 8)? => 16,
            Width::W32 => 32,
        })
    };
    let source = |ty: Type, choices: &mut Unstructured<'_>| -> Result<String> {
        Ok(match choices.int_in_range(0..=15)? {
            0 if ty != Type::Pred => choices.arbitrary::<i32>()?.to_string(),
            1 if matches!(ty.width(), Width::W32 | Width::W64) => (*choices
                .choose(&["%laneid", "%tid.x", "%ctaid.x", "WARP_SZ", "-1", "g", "s", "dynamic", "l"])?)
            .to_owned(),
            2 if ty.is_float() => {
                (*choices.choose(&["0f7F800000", "0f7FC00000", "0f00000001", "1.5", "0dFFF0000000000000"])?)
                    .to_owned()
            }
            3 if ty == Type::Pred => format!("!%p{}", choices.int_in_range(0..=7)?),
            _ => {
                let bits = narrow(ty.width(), choices)?;
                register(bits, false, choices)?
            }
        })
    };
    let vector = |items: Vec<String>| {
        if items.len() == 1 { items.join("") } else { format!("{{{}}}", items.join(", ")) }
    };
    let fits = |width: Width| match shape {
        Some(Shape::Register(bits)) => match width {
            Width::Pred => *bits == 1,
            Width::W32 => matches!(bits, 2..=32),
            Width::W64 => *bits == 64,
            Width::W128 => *bits == 128,
        },
        _ => false,
    };
    Ok(match slot {
        Slot::Dst(width) if fits(*width) => draft,
        Slot::Dst(width) => {
            let bits = narrow(*width, choices)?;
            register(bits, true, choices)?
        }
        Slot::Src(ty) if fits(ty.width()) => draft,
        Slot::Src(ty) => source(*ty, choices)?,
        Slot::DstVec(widths) | Slot::UpdateVec(widths) => match shape {
            Some(Shape::Vector(items)) if items.len() == widths.len() => draft,
            Some(Shape::Register(_)) if widths.len() == 1 && fits(widths[0]) => draft,
            _ => vector(
                widths
                    .iter()
                    .map(|width| {
                        let bits = narrow(*width, choices)?;
                        register(bits, true, choices)
                    })
                    .collect::<Result<_>>()?,
            ),
        },
        Slot::SrcVec(types) => match shape {
            Some(Shape::Vector(items)) if items.len() == types.len() => draft,
            Some(Shape::Register(_)) if types.len() == 1 && fits(types[0].width()) => draft,
            _ => vector(types.iter().map(|ty| source(*ty, choices)).collect::<Result<_>>()?),
        },
        Slot::DstPair(width) => {
            let bits = narrow(*width, choices)?;
            let first = register(bits, true, choices)?;
            if choices.arbitrary()? { format!("{first}|%p{}", choices.int_in_range(4..=6)?) } else { first }
        }
        Slot::DstVecPair(widths) => {
            let mut items = Vec::new();
            for width in widths {
                let bits = narrow(*width, choices)?;
                items.push(register(bits, true, choices)?);
            }
            format!("{{{}}}|%p{}", items.join(", "), choices.int_in_range(4..=6)?)
        }
        Slot::Image(types) => image(types, choices)?,
        Slot::Tensor(types) => {
            let text = image(types, choices)?;
            match text.split_once(',') {
                Some((_, coordinates)) if choices.ratio(3, 4)? => format!("[m{},{coordinates}", types.len()),
                _ => text,
            }
        }
        Slot::Address => address(modifiers, choices)?,
        Slot::Label => "L1".into(),
        Slot::Table => "T1".into(),
        Slot::Static => draft,
    })
}
