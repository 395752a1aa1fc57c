//! Mutations of a PTX module: which instructions to remove, weaken, shift or drop.
//!
//! A place in the CUDA source may correspond to several instructions, because loops are unrolled; one mutant changes all copies, as
//! one change of the source would. An inlined function has one place for each call.

use std::collections::{BTreeMap, BTreeSet};

use warpproof_ptx::{
    Float, Instruction, Integer, LineTable, Module, Operand, Statement, component, type_bits,
};

/// Kinds of mutations, as named in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    Remove,
    Weaken,
    Mask,
    Shift,
    Swizzle,
    ZeroFill,
    Compare,
    Fragment,
    Factor,
}

impl Family {
    pub(crate) const ALL: [Family; 9] = [
        Family::Remove,
        Family::Weaken,
        Family::Mask,
        Family::Shift,
        Family::Swizzle,
        Family::ZeroFill,
        Family::Compare,
        Family::Fragment,
        Family::Factor,
    ];

    /// Whether it changes synchronization.
    pub(crate) fn is_order(self) -> bool {
        matches!(self, Family::Remove | Family::Weaken | Family::Mask)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::Remove => "synchronization removed",
            Family::Weaken => "synchronization weakened",
            Family::Mask => "lanes taken from a mask",
            Family::Shift => "tile index shifted by one",
            Family::Swizzle => "swizzle dropped on one side",
            Family::ZeroFill => "zero-fill dropped",
            Family::Compare => "comparison off by one",
            Family::Fragment => "fragment rearranged",
            Family::Factor => "factor dropped",
        }
    }
}

/// How one instruction is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Removes the instruction.
    Remove,
    /// A wait returns true at once.
    Passed,
    /// Replaces or removes one modifier.
    Modifier(&'static str, Option<&'static str>),
    /// Adds the scope `.cta` to an atomic, whose default is the device.
    BlockScope,
    /// Replaces one operand by this number.
    Number(usize, i64),
    /// Replaces `wait_all` by `wait_group 1`.
    OneGroupLess,
    /// Adds this number of bytes to the address in this operand.
    Shift(usize, i64),
    /// Replaces the result by the first operand.
    First,
    /// Replaces `a · b + c` by `a + c`.
    Sum,
    /// Exchanges two registers of this operand.
    Exchange(usize, usize, usize),
    /// Stops the launch, to find out whether the place is executed at all.
    Trap,
}

/// A mutant: one change at one place of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutation {
    pub(crate) family: Family,
    /// The line of the kernel's own file.
    pub(crate) line: u32,
    /// Describes the change; together with the line, it identifies the mutant within its kernel.
    pub(crate) label: String,
    change: Change,
    /// Offsets of the instructions in the text.
    places: BTreeSet<u32>,
}

impl Mutation {
    /// The module with this change.
    pub(crate) fn apply<'s>(&self, module: &Module<'s>) -> Module<'s> {
        self.with(module, self.change)
    }

    /// The module that stops at the changed instructions.
    pub(crate) fn probe<'s>(&self, module: &Module<'s>) -> Module<'s> {
        self.with(module, Change::Trap)
    }

    fn with<'s>(&self, module: &Module<'s>, change: Change) -> Module<'s> {
        let mut mutant = module.clone();
        for body in mutant.functions_mut().filter_map(|function| function.body.as_mut()) {
            rewrite(body, &self.places, change);
        }
        mutant
    }
}

fn rewrite(statements: &mut Vec<Statement<'_>>, places: &BTreeSet<u32>, change: Change) {
    statements.retain_mut(|statement| match statement {
        Statement::Instruction(instruction) if places.contains(&instruction.span.start) => {
            edit(instruction, change)
        }
        Statement::Block(block) => {
            rewrite(&mut block.statements, places, change);
            true
        }
        _ => true,
    });
}

/// Changes an instruction; returns false if it must be removed.
fn edit(instruction: &mut Instruction<'_>, change: Change) -> bool {
    match change {
        Change::Remove => return false,
        Change::Trap => {
            // A removed branch still counts as executed.
            instruction.guard = None;
            instruction.opcode = "trap";
            instruction.modifiers.clear();
            instruction.operands.clear();
        }
        Change::Passed => {
            instruction.opcode = "setp";
            instruction.modifiers = ["eq", "u32"].into_iter().collect();
            instruction.operands.truncate(1);
            instruction.operands.extend([0, 0].map(|zero| Operand::Integer(Integer::new(zero))));
        }
        Change::Modifier(from, to) => {
            let Some(at) = instruction.modifiers.iter().position(|modifier| *modifier == from) else {
                return true;
            };
            match to {
                Some(to) => instruction.modifiers[at] = to,
                None => {
                    instruction.modifiers.remove(at);
                }
            }
        }
        Change::BlockScope => instruction.modifiers.insert(0, "cta"),
        Change::Number(at, number) => {
            if let Some(operand) = instruction.operands.get_mut(at) {
                *operand = Operand::Integer(Integer::new(number));
            }
        }
        Change::OneGroupLess => {
            instruction.modifiers = ["async", "wait_group"].into_iter().collect();
            instruction.operands.push(Operand::Integer(Integer::new(1)));
        }
        Change::Shift(at, bytes) => {
            if let Some(Operand::Address(address)) = instruction.operands.get_mut(at) {
                address.offset += bytes;
            }
        }
        Change::First => {
            instruction.opcode = "mov";
            let last = instruction.modifiers.len().saturating_sub(1);
            instruction.modifiers.drain(..last);
            instruction.operands.truncate(2);
        }
        Change::Sum => {
            instruction.opcode = "add";
            if instruction.operands.len() > 2 {
                instruction.operands.remove(2);
            }
        }
        Change::Exchange(at, one, other) => {
            if let Some(Operand::Vector(registers)) = instruction.operands.get_mut(at)
                && one.max(other) < registers.len()
            {
                registers.swap(one, other);
            }
        }
    }
    true
}

/// The source position of an instruction: lines of the sources, innermost call first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Origin<'a> {
    /// The line of the first source.
    line: u32,
    /// The lines of inlined calls, and their files if these differ.
    within: Vec<(Option<&'a str>, u32)>,
}

impl<'a> Origin<'a> {
    /// The position of the instruction at this offset, if it comes from the first of the sources.
    fn of(place: u32, lines: &LineTable<'_>, sources: &[&'a str]) -> Option<Self> {
        let location = lines.location(place)?;
        let mut within = Vec::new();
        for at in location.chain() {
            let name = at.file.rsplit(['/', '\\']).next().unwrap_or(at.file);
            // The compiler uses line 0 for code that it merged from several lines.
            let source = sources.iter().position(|source| *source == name && at.line > 0);
            if let Some(found) = source {
                within.push(((found > 0).then(|| sources[found]), at.line));
            }
        }
        let outermost = within.iter().rposition(|(file, _)| file.is_none())?;
        let (_, line) = within[outermost];
        within.truncate(outermost);
        within.reverse();
        Some(Self { line, within })
    }

    /// The inlined calls of the line, outermost first.
    fn path(&self) -> String {
        if self.within.is_empty() {
            return String::new();
        }
        let calls: Vec<String> = self
            .within
            .iter()
            .map(|(file, line)| match file {
                Some(file) => format!("{file}:{line}"),
                None => format!("line {line}"),
            })
            .collect();
        format!(" in {}", calls.join(", "))
    }
}

/// All mutations of a module that come from the first of the sources, by line.
pub(crate) fn mutations(module: &Module<'_>, sources: &[&str]) -> Vec<Mutation> {
    let lines = LineTable::new(module);
    let mut found: BTreeMap<(Origin<'_>, Family, String, Change, &str), BTreeSet<u32>> = BTreeMap::new();
    for body in module.functions().filter_map(|function| function.body.as_ref()) {
        let mut flat = Vec::new();
        flatten(body, &mut flat);
        let known = constants(&flat);
        for (i, step) in flat.iter().enumerate() {
            let Step::Instruction(instruction) = step else { continue };
            let place = instruction.span.start;
            let Some(origin) = Origin::of(place, &lines, sources) else { continue };
            let mut changes = changes(instruction, &known);
            if is_result_unused(instruction, &flat) {
                changes.push((Family::Remove, String::new(), Change::Remove));
            }
            if is_spin(&flat, i) {
                changes.push((Family::Remove, "does not wait: the loop is left".to_owned(), Change::Remove));
            }
            for (family, how, change) in changes {
                let how = if how.is_empty() { "removed".to_owned() } else { how };
                let label = format!("`{}` {how}{}", spelled(instruction, family), origin.path());
                let array = if family == Family::Shift { base(instruction) } else { "" };
                found.entry((origin.clone(), family, label, change, array)).or_default().insert(place);
            }
        }
    }
    let mut names: BTreeMap<(u32, String), u32> = BTreeMap::new();
    let mut list: Vec<Mutation> = found
        .into_iter()
        .map(|((origin, family, label, change, _), places)| Mutation {
            family,
            line: origin.line,
            label,
            change,
            places,
        })
        .collect();
    list.sort_by_key(|mutation| (mutation.line, mutation.family, mutation.places.first().copied()));
    // Several arrays of one line are numbered by their order in the code.
    for mutation in &mut list {
        let times = names.entry((mutation.line, mutation.label.clone())).or_default();
        *times += 1;
        if *times > 1 {
            mutation.label = format!("{} ({times})", mutation.label);
        }
    }
    list
}

/// The register or variable that an address is based on: two of them in one line are two arrays. This does not apply to
/// `ldmatrix`, which loads one operand with a register for each address of an unrolled loop.
fn base<'s>(instruction: &Instruction<'s>) -> &'s str {
    let bases = instruction.operands.iter().find_map(|operand| match operand {
        Operand::Address(address) => Some(address.base),
        _ => None,
    });
    bases.flatten().filter(|_| instruction.opcode != "ldmatrix").unwrap_or_default()
}

enum Step<'a, 's> {
    Label(&'s str),
    Instruction(&'a Instruction<'s>),
}

fn flatten<'a, 's>(statements: &'a [Statement<'s>], into: &mut Vec<Step<'a, 's>>) {
    for statement in statements {
        match statement {
            Statement::Label(label) => into.push(Step::Label(label.name)),
            Statement::Instruction(instruction) => into.push(Step::Instruction(instruction)),
            Statement::Block(block) => flatten(&block.statements, into),
            _ => {}
        }
    }
}

/// Registers that hold one constant: every definition moves this constant.
type Constants<'s> = BTreeMap<&'s str, Option<u64>>;

fn constants<'s>(steps: &[Step<'_, 's>]) -> Constants<'s> {
    let mut known = Constants::new();
    for step in steps {
        let Step::Instruction(instruction) = step else { continue };
        if matches!(instruction.opcode, "st" | "bra" | "red" | "bar" | "barrier") {
            continue;
        }
        match instruction.operands.first() {
            Some(Operand::Name(name)) => {
                let moved = (instruction.opcode == "mov").then(|| instruction.operands.get(1)).flatten();
                let value = moved.and_then(bits);
                let before = known.entry(name).or_insert(value);
                if *before != value {
                    *before = None;
                }
            }
            Some(Operand::Vector(names)) => {
                known.extend(names.iter().filter_map(|name| match name {
                    Operand::Name(name) => Some((*name, None)),
                    _ => None,
                }));
            }
            _ => {}
        }
    }
    known
}

/// The bits of a constant.
fn bits(operand: &Operand<'_>) -> Option<u64> {
    match operand {
        Operand::Integer(integer) => Some(integer.bits()),
        Operand::Float(Float::Single(bits)) => Some(u64::from(*bits)),
        Operand::Float(Float::Double(bits)) => Some(*bits),
        _ => None,
    }
}

/// The bits of an operand that is a constant, in a register or not.
fn constant(operand: &Operand<'_>, known: &Constants<'_>) -> Option<u64> {
    match operand {
        Operand::Name(name) => known.get(name).copied().flatten(),
        other => bits(other),
    }
}

/// The text of an instruction in a label. Registers depend on the compiler, so only constants are kept.
fn spelled(instruction: &Instruction<'_>, family: Family) -> String {
    let mut text = instruction.opcode.to_owned();
    for modifier in &instruction.modifiers {
        text.push('.');
        text.push_str(modifier);
    }
    let numbers: Vec<String> = instruction
        .operands
        .iter()
        .filter_map(|operand| match operand {
            Operand::Integer(integer) => Some(integer.signed().to_string()),
            _ => None,
        })
        .collect();
    if family != Family::Shift
        && matches!(instruction.opcode, "bar" | "barrier" | "cp")
        && !numbers.is_empty()
    {
        text.push(' ');
        text.push_str(&numbers.join(", "));
    }
    text
}

fn number(instruction: &Instruction<'_>, at: usize) -> Option<i64> {
    match instruction.operands.get(at) {
        Some(Operand::Integer(integer)) => Some(integer.signed()),
        _ => None,
    }
}

type Found = (Family, String, Change);

fn changes(instruction: &Instruction<'_>, known: &Constants<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    synchronization(instruction, &mut found);
    order(instruction, &mut found);
    masks(instruction, known, &mut found);
    shift(instruction, &mut found);
    zero_fill(instruction, known, &mut found);
    compare(instruction, &mut found);
    fragment(instruction, &mut found);
    arithmetic(instruction, &mut found);
    found
}

/// Barriers, fences and waits.
fn synchronization(instruction: &Instruction<'_>, found: &mut Vec<Found>) {
    let removed = (Family::Remove, String::new(), Change::Remove);
    match instruction.opcode {
        "bar" if instruction.has("warp") => found.push(removed),
        "bar" | "barrier" if instruction.has("sync") || instruction.has("arrive") => {
            found.push(removed);
            if let (Some(id), true) = (number(instruction, 0), instruction.operands.len() > 1) {
                let other = (id + 1) % 16;
                found.push((Family::Weaken, format!("waits at barrier {other}"), Change::Number(0, other)));
            }
            if let Some(count) = number(instruction, 1).filter(|count| *count > 32) {
                let fewer = count - 32;
                found.push((Family::Weaken, format!("counts {fewer} threads"), Change::Number(1, fewer)));
            }
        }
        "membar" | "fence" => {
            found.push(removed);
            for wide in ["gl", "gpu", "sys"] {
                if instruction.has(wide) {
                    found.push((
                        Family::Weaken,
                        "with the block as its scope".to_owned(),
                        Change::Modifier(wide, Some("cta")),
                    ));
                }
            }
        }
        "cp" if instruction.has("wait_group") => {
            found.push(removed);
            if let Some(count) = number(instruction, 0) {
                let more = count + 1;
                found.push((Family::Weaken, format!("as `wait_group {more}`"), Change::Number(0, more)));
            }
        }
        "cp" if instruction.has("wait_all") => {
            found.push(removed);
            found.push((Family::Weaken, "as `wait_group 1`".to_owned(), Change::OneGroupLess));
        }
        "cp" if instruction.has("commit_group") || instruction.has("mbarrier") => found.push(removed),
        "mbarrier" if instruction.has("test_wait") || instruction.has("try_wait") => {
            found.push((Family::Remove, "does not wait".to_owned(), Change::Passed));
        }
        _ => {}
    }
}

/// Ordered and volatile accesses, and their scopes.
fn order(instruction: &Instruction<'_>, found: &mut Vec<Found>) {
    if !matches!(instruction.opcode, "ld" | "st" | "atom" | "red") {
        return;
    }
    for strong in ["acquire", "release", "acq_rel"] {
        if instruction.has(strong) {
            let change = Change::Modifier(strong, Some("relaxed"));
            found.push((Family::Weaken, "relaxed".to_owned(), change));
        }
    }
    for wide in ["gpu", "sys"] {
        if instruction.has(wide) {
            let change = Change::Modifier(wide, Some("cta"));
            found.push((Family::Weaken, "with the block as its scope".to_owned(), change));
        }
    }
    if instruction.has("volatile") {
        found.push((Family::Weaken, "not volatile".to_owned(), Change::Modifier("volatile", None)));
    }
    let scoped = ["gpu", "sys", "cta", "cluster"].into_iter().any(|scope| instruction.has(scope));
    if matches!(instruction.opcode, "atom" | "red") && !scoped && !instruction.has("shared") {
        found.push((Family::Weaken, "with the block as its scope".to_owned(), Change::BlockScope));
    }
}

/// Masks of `.sync` instructions: removes the upper half of the warp.
fn masks(instruction: &Instruction<'_>, known: &Constants<'_>, found: &mut Vec<Found>) {
    let warp = instruction.opcode == "bar" && instruction.has("warp")
        || matches!(instruction.opcode, "shfl" | "vote" | "match" | "redux") && instruction.has("sync");
    let at = instruction.operands.len().saturating_sub(1);
    let mask = instruction.operands.get(at).and_then(|operand| constant(operand, known));
    if warp && mask.is_some_and(|mask| mask & 0xffff_ffff == 0xffff_ffff) {
        found.push((Family::Mask, "for lanes 0 to 15".to_owned(), Change::Number(at, 0xffff)));
    }
}

/// The next element of an array in shared memory, for one load or store.
fn shift(instruction: &Instruction<'_>, found: &mut Vec<Found>) {
    if !instruction.has("shared") || instruction.has("mbarrier") || instruction.opcode == "mbarrier" {
        return;
    }
    let Some(at) = instruction.operands.iter().position(|operand| matches!(operand, Operand::Address(_)))
    else {
        return;
    };
    let bytes = match instruction.opcode {
        // One row of a matrix, so that the address stays aligned.
        "ldmatrix" | "stmatrix" => 16,
        "wmma" => 32,
        "cp" => number(instruction, 2).unwrap_or(4),
        "ld" | "st" | "atom" | "red" => {
            let bits = instruction.modifiers.iter().rev().find_map(|name| type_bits(name)).unwrap_or(32);
            let vector = ["v2", "v4", "v8"].into_iter().position(|name| instruction.has(name));
            i64::from(bits / 8) * [2, 4, 8].get(vector.unwrap_or(3)).copied().unwrap_or(1)
        }
        _ => return,
    };
    found.push((Family::Shift, format!("{bytes} bytes further"), Change::Shift(at, bytes)));
}

fn zero_fill(instruction: &Instruction<'_>, known: &Constants<'_>, found: &mut Vec<Found>) {
    let is_copy = instruction.opcode == "cp" && instruction.has("shared");
    // A copy without a zero-fill cannot be changed in this way.
    if let (true, Some(size), Some(taken)) = (is_copy, number(instruction, 2), instruction.operands.get(3))
        && constant(taken, known) != u64::try_from(size).ok()
    {
        found.push((Family::ZeroFill, "copies all bytes".to_owned(), Change::Number(3, size)));
    }
    let zero = |operand: &Operand<'_>| constant(operand, known) == Some(0);
    let stores_zero = instruction.opcode == "st"
        && instruction.has("shared")
        && match instruction.operands.get(1) {
            Some(Operand::Vector(parts)) => parts.iter().all(zero),
            Some(value) => zero(value),
            None => false,
        };
    if stores_zero {
        found.push((Family::ZeroFill, "of zero removed".to_owned(), Change::Remove));
    }
}

/// Comparisons of bounds, masks and loops that are off by one.
fn compare(instruction: &Instruction<'_>, found: &mut Vec<Found>) {
    let integers = ["u16", "s16", "u32", "s32", "u64", "s64"].into_iter().any(|name| instruction.has(name));
    if instruction.opcode != "setp" || !integers {
        return;
    }
    for (from, to) in [("lt", "le"), ("le", "lt"), ("gt", "ge"), ("ge", "gt")] {
        if instruction.has(from) {
            found.push((Family::Compare, format!("as `{to}`"), Change::Modifier(from, Some(to))));
        }
    }
}

/// The layout of a fragment: exchanges registers of an operand, or does not transpose a matrix.
fn fragment(instruction: &Instruction<'_>, found: &mut Vec<Found>) {
    let mut exchange = |at: usize, name: &str, one: usize, other: usize| {
        if matches!(instruction.operands.get(at), Some(Operand::Vector(parts)) if parts.len() > one.max(other))
        {
            let how = format!("with registers {one} and {other} of {name} exchanged");
            found.push((Family::Fragment, how, Change::Exchange(at, one, other)));
        }
    };
    match instruction.opcode {
        "ldmatrix" => {
            exchange(0, "the result", 1, 2);
            if instruction.has("trans") {
                found.push((Family::Fragment, "not transposed".to_owned(), Change::Modifier("trans", None)));
            }
        }
        "mma" => {
            exchange(1, "A", 1, 2);
            exchange(2, "B", 0, 1);
        }
        "prmt" => {
            if let Some(selector) = number(instruction, 3) {
                let exchanged = selector & 0xf00f | (selector & 0xf0) << 4 | selector >> 4 & 0xf0;
                if exchanged != selector {
                    let how = format!("with {exchanged:#06x} for {selector:#06x}");
                    found.push((Family::Fragment, how, Change::Number(3, exchanged)));
                }
            }
        }
        _ => {}
    }
}

/// Drops an `xor` of a swizzle, or a factor of a product.
fn arithmetic(instruction: &Instruction<'_>, found: &mut Vec<Found>) {
    match instruction.opcode {
        "xor" if instruction.has("b32") => {
            found.push((Family::Swizzle, "dropped".to_owned(), Change::First));
        }
        "mul" if instruction.has("f32") => {
            found.push((Family::Factor, "without its second factor".to_owned(), Change::First));
        }
        "fma" if instruction.has("f32") => {
            found.push((Family::Factor, "without its second factor".to_owned(), Change::Sum));
        }
        _ => {}
    }
}

/// Whether it is an arrival whose state is never read: removing it leaves no register undefined.
fn is_result_unused(instruction: &Instruction<'_>, steps: &[Step<'_, '_>]) -> bool {
    if instruction.opcode != "mbarrier" || !instruction.has("arrive") {
        return false;
    }
    match instruction.operands.first() {
        Some(Operand::Name(state)) => !steps.iter().any(|step| match step {
            Step::Instruction(other) => other.operands.iter().skip(1).any(|operand| uses(operand, state)),
            Step::Label(_) => false,
        }),
        _ => true,
    }
}

fn uses(operand: &Operand<'_>, register: &str) -> bool {
    match operand {
        Operand::Name(name) | Operand::Negated(name) | Operand::Not(name) => component(name).0 == register,
        Operand::Address(address) => address.base == Some(register),
        Operand::Vector(parts) | Operand::List(parts) => parts.iter().any(|part| uses(part, register)),
        _ => false,
    }
}

/// Maximum number of instructions of a loop that only waits.
const SPIN: usize = 16;

/// Whether the instruction is the branch of a loop that only polls memory.
fn is_spin(steps: &[Step<'_, '_>], at: usize) -> bool {
    let Step::Instruction(branch) = &steps[at] else { return false };
    let Some(Operand::Name(target)) = branch.operands.first() else { return false };
    if branch.opcode != "bra" || branch.guard.is_none() {
        return false;
    }
    let start = at.saturating_sub(SPIN);
    let Some(begin) =
        steps[start..at].iter().position(|step| matches!(step, Step::Label(name) if name == target))
    else {
        return false;
    };
    let mut looks = false;
    for step in &steps[start + begin..at] {
        let Step::Instruction(instruction) = step else { continue };
        match instruction.opcode {
            "ld" => {
                looks |= ["volatile", "acquire", "relaxed"].into_iter().any(|word| instruction.has(word));
            }
            "atom" => looks |= instruction.has("cas") || instruction.has("exch"),
            "st" | "red" | "bar" | "barrier" | "cp" | "mbarrier" | "bra" => return false,
            _ => {}
        }
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpproof_ptx::{parse, print};

    const SOURCE: &str = r#"
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<9>;
    .reg .pred %p<3>;
    .shared .align 4 .b8 tile[64];
    .loc 1 3 5
    mov.u32 %r1, 0;
    st.shared.u32 [tile], %r1;
    .loc 1 4 5
    bar.sync 0;
    .loc 1 5 5
    ld.shared.v2.u32 {%r2, %r3}, [tile+8];
    .loc 1 6 5
    cp.async.wait_group 1;
    cp.async.ca.shared.global [tile], [%r1], 4, %r2;
    .loc 1 7 5
    bar.sync 0;
    .loc 1 4 5
    bar.sync 0;
SPIN:
    .loc 1 8 5
    ld.volatile.global.u32 %r4, [%r1];
    setp.eq.u32 %p1, %r4, 0;
    @%p1 bra SPIN;
    ret;
}
.file 1 "k.cu"
"#;

    const MATRIX: &str = r#"
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<9>;
    .reg .f32 %f<9>;
    .reg .pred %p<3>;
    .loc 1 9 5
    ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
    prmt.b32 %r6, %r1, %r2, 0x6420;
    mul.rn.f32 %f1, %f2, %f3;
    fma.rn.f32 %f1, %f2, %f3, %f4;
    setp.lt.u32 %p1, %r1, %r2;
    .loc 2 4 5, function_name $name, inlined_at 1 9 5
    xor.b32 %r7, %r1, %r2;
    .loc 2 4 5, function_name $name, inlined_at 1 12 5
    xor.b32 %r8, %r1, %r2;
    ret;
}
.file 1 "k.cu"
.file 2 "tile.cuh"
"#;

    fn labels(list: &[Mutation]) -> Vec<String> {
        list.iter().map(|mutation| format!("{} {}", mutation.line, mutation.label)).collect()
    }

    #[test]
    fn every_kind_of_place_is_found_and_copies_are_one() {
        let (module, errors) = parse(SOURCE);
        assert!(errors.is_empty(), "{errors:?}");
        let list = mutations(&module, &["k.cu"]);
        assert_eq!(
            labels(&list),
            [
                "3 `st.shared.u32` 4 bytes further",
                "3 `st.shared.u32` of zero removed",
                "4 `bar.sync 0` removed",
                "5 `ld.shared.v2.u32` 8 bytes further",
                "6 `cp.async.wait_group 1` removed",
                "6 `cp.async.wait_group 1` as `wait_group 2`",
                "6 `cp.async.ca.shared.global` 4 bytes further",
                "6 `cp.async.ca.shared.global 4` copies all bytes",
                "7 `bar.sync 0` removed",
                "8 `bra` does not wait: the loop is left",
                "8 `ld.volatile.global.u32` not volatile",
            ]
        );
        let text = print(&list[2].apply(&module));
        assert_eq!(text.matches("bar.sync").count(), 1, "{text}");
        assert!(print(&list[3].apply(&module)).contains("[tile+16]"));
        assert!(print(&list[5].apply(&module)).contains("cp.async.wait_group 2"));
        assert!(print(&list[7].apply(&module)).contains("4, 4;"));
        assert!(print(&list[3].probe(&module)).contains("trap;"));
    }

    #[test]
    fn matrices_indices_and_bounds_are_changed_and_calls_are_told_apart() {
        let (module, errors) = parse(MATRIX);
        assert!(errors.is_empty(), "{errors:?}");
        let list = mutations(&module, &["k.cu", "tile.cuh"]);
        assert_eq!(
            labels(&list),
            [
                "9 `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16` 16 bytes further",
                "9 `xor.b32` dropped in tile.cuh:4",
                "9 `setp.lt.u32` as `le`",
                "9 `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16` not transposed",
                "9 `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16` with registers 1 and 2 of the result exchanged",
                "9 `prmt.b32` with 0x6240 for 0x6420",
                "9 `mul.rn.f32` without its second factor",
                "9 `fma.rn.f32` without its second factor",
                "12 `xor.b32` dropped in tile.cuh:4",
            ]
        );
        let text = |label: &str| {
            let mutation = list.iter().find(|mutation| mutation.label.contains(label)).unwrap();
            print(&mutation.apply(&module))
        };
        assert!(text("`xor.b32`").contains("mov.b32"));
        assert_eq!(text("`xor.b32`").matches("xor.b32").count(), 1, "the other call keeps it");
        assert!(text("exchanged").contains("{%r1, %r3, %r2, %r4}"));
        assert!(text("not transposed").contains("ldmatrix.sync.aligned.m8n8.x4.shared.b16"));
        assert!(text("`fma").contains("add.rn.f32"));
        assert!(text("`mul").contains("mov.f32"));
        assert!(text("as `le`").contains("setp.le.u32"));
    }
}
