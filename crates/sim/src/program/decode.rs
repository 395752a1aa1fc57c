//! Decodes the tree of a module to a [`Program`]: names become rows and addresses, instructions become routines.
//!
//! An instruction that cannot be bound does not fail the load: it becomes a routine that stops, with its location, when it
//! is reached. So a module may contain unsupported instructions that the kernel does not execute.

use super::NameMap;
use super::forms::Found;
use super::link::{Linked, Parameter, extent};
use super::operands::Names;
use super::scope::{Local, Scopes};
use super::special::SpecialKind;
use super::time::TimeRows;
use super::{Communication, Inst, LaunchBounds, Meta, Program};
use crate::isa::{self, Args, Inline, Op, Refusal, Spec};
use crate::machine::{Callee, Row, Warp, Width, at};
use crate::simd::Level;
use crate::stop::{Blame, SourceLine, Stop, StopKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use warpproof_ptx as ptx;

/// Decodes a kernel of a linked module for a vector level.
pub fn decode(linked: &Linked, kernel: &str, level: Level) -> Result<Program, Box<Stop>> {
    let module = linked.tree(kernel);
    let mut definitions = HashMap::new();
    let mut declarations = HashMap::new();
    for function in module.functions() {
        declarations.insert(function.name, function);
        if function.body.is_some() {
            definitions.insert(function.name, function);
        }
    }
    let Some(entry) = definitions.get(kernel).filter(|function| function.entry) else {
        let known = linked.kernels.join(", ");
        let mut stop = Stop::general(
            Blame::Input,
            StopKind::Launch,
            format!("the module has no kernel named `{kernel}`"),
        );
        stop.help = Some(if known.is_empty() {
            "the module contains no kernels".into()
        } else {
            format!("available kernels: {known}")
        });
        return Err(Box::new(stop));
    };
    let mut decoder = Decoder::new(linked, &module, level, &definitions, &declarations);
    decoder.kernel(entry)?;
    Ok(decoder.finish())
}

/// The maximum number of instructions of a kernel, including the functions it calls, and of entries of all its branch
/// tables.
const MAX_CODE: usize = 1 << 22;

/// The layout of a kernel's shared variables.
#[derive(Default)]
pub(super) struct SharedLayout {
    pub(super) named: BTreeMap<String, u32>,
    pub(super) variables: Vec<(String, u32, u32)>,
    pub(super) top: u32,
    pub(super) dynamic_align: u32,
    pub(super) dynamic_named: bool,
}

pub(super) struct Decoder<'s, 'd> {
    pub(super) linked: &'d Linked,
    lines: ptx::LineTable<'s>,
    level: Level,
    definitions: &'d HashMap<&'s str, &'d ptx::Function<'s>>,
    pub(super) declarations: &'d HashMap<&'s str, &'d ptx::Function<'s>>,
    pub(super) program: Program,
    /// The forms of instructions, by opcode and modifiers.
    pub(super) forms: NameMap<(&'s str, &'d [&'s str]), Found>,
    /// Rows of immediates, by file and bits.
    pub(super) constants: NameMap<(Width, u128), u32>,
    /// Rows that hold the address of a shared variable.
    pub(super) shared_constants: NameMap<(Width, u64), u32>,
    pub(super) special_rows: NameMap<(SpecialKind, Width), u32>,
    pub(super) shared: SharedLayout,
    source_ids: NameMap<Vec<(String, u32, u32)>, u32>,
    /// Functions to decode, by number.
    pending: Vec<u32>,
    seen: Vec<bool>,
    /// Calls made by each function, to find recursion; `None` is the kernel.
    pub(super) edges: Vec<(Option<u32>, Option<u32>)>,
    /// Functions whose address is taken.
    pub(super) taken: BTreeSet<u32>,
    /// Whether there is a call through a pointer.
    indirect: bool,
    /// Entries of branch tables so far.
    table_entries: usize,
    /// The first instruction that the module's target or version does not support.
    refused: Option<(u32, Box<Stop>)>,
    // The function being decoded.
    pub(super) scopes: Scopes<'s>,
    /// Rows of registers, by scope, name and element.
    pub(super) rows: NameMap<(usize, &'s str, u32), (Width, u32)>,
    pub(super) function: Option<u32>,
    pub(super) frame: u32,
    /// The largest alignment of a variable in the frame.
    frame_align: u32,
    /// The used bytes of the next load, from a pragma.
    used: u32,
    fixups: Vec<Fixup<'s>>,
    pub(super) prototypes: NameMap<&'s str, &'d ptx::CallPrototype<'s>>,
    /// Results that are registers: stored into the frame before `ret`.
    epilogue: Vec<(Width, u32, u32, u32)>,
    pub(super) sinks: BTreeMap<Width, u32>,
}

struct Fixup<'s> {
    pc: u32,
    scope: usize,
    label: &'s str,
    table: bool,
}

/// An instruction to add to the program.
pub(super) struct Emitted<'a> {
    pub(super) run: isa::Run,
    pub(super) guard: Option<(u32, bool)>,
    pub(super) args: Args,
    pub(super) op: Op,
    pub(super) entry: Option<usize>,
    pub(super) span: ptx::Span,
    pub(super) reads: &'a [(Width, u32)],
    pub(super) writes: &'a [(Width, u32)],
    pub(super) names: Names,
}

impl Emitted<'_> {
    /// An instruction without operands.
    pub(super) fn new(run: isa::Run, guard: Option<(u32, bool)>, op: Op, span: ptx::Span) -> Self {
        let (args, names) = (Args::default(), Names::default());
        Emitted { run, guard, args, op, entry: None, span, reads: &[], writes: &[], names }
    }
}

/// Offset and size in a frame of each of several variables.
pub(super) type Places = Vec<(u32, u32)>;

/// Offsets of a function's results and parameters in its frame: results first, then parameters.
pub(super) fn formals(returns: &[ptx::Variable<'_>], params: &[ptx::Variable<'_>]) -> (Places, Places, u32) {
    let mut top = 0u32;
    let mut place = |variables: &[ptx::Variable<'_>]| {
        let mut out = Vec::new();
        for variable in variables {
            for name in &variable.names {
                let (size, align) = extent(variable, name).unwrap_or((Some(4), 4));
                let size = u32::try_from(size.unwrap_or(0)).unwrap_or(u32::MAX / 4).min(1 << 20);
                top = top.min(1 << 30).next_multiple_of(align.clamp(1, 1 << 12));
                out.push((top, size));
                top = top.saturating_add(size);
            }
        }
        out
    };
    let results = place(returns);
    let arguments = place(params);
    (results, arguments, top)
}

impl<'s, 'd> Decoder<'s, 'd> {
    fn new(
        linked: &'d Linked,
        module: &'d ptx::Module<'s>,
        level: Level,
        definitions: &'d HashMap<&'s str, &'d ptx::Function<'s>>,
        declarations: &'d HashMap<&'s str, &'d ptx::Function<'s>>,
    ) -> Self {
        let callees =
            linked.functions.iter().map(|name| Callee { name: name.clone(), ..Callee::default() }).collect();
        Decoder {
            linked,
            lines: ptx::LineTable::new(module),
            level,
            definitions,
            declarations,
            program: Program {
                name: String::new(),
                code: Vec::new(),
                metas: Vec::new(),
                entry: 0,
                frame: 0,
                registers: crate::machine::Registers::default(),
                specials: Vec::new(),
                callees,
                call_sites: Vec::new(),
                static_shared: 0,
                dynamic_shared: None,
                shared_variables: Vec::new(),
                params: Vec::new(),
                bounds: LaunchBounds::default(),
                communication: Communication::None,
                lanes_wait: false,
                bundles: 0,
                has_faster_bundles: false,
                time_rows: TimeRows::default(),
                dynamic_rows: Vec::new(),
                shared_rows: Vec::new(),
                sources: Vec::new(),
                text: linked.text.clone(),
            },
            forms: NameMap::default(),
            constants: NameMap::default(),
            shared_constants: NameMap::default(),
            special_rows: NameMap::default(),
            shared: SharedLayout { dynamic_align: 16, ..SharedLayout::default() },
            source_ids: NameMap::default(),
            pending: Vec::new(),
            seen: vec![false; linked.functions.len()],
            edges: Vec::new(),
            taken: linked.taken.clone(),
            indirect: false,
            table_entries: 0,
            refused: None,
            scopes: Scopes::new(),
            rows: NameMap::default(),
            function: None,
            frame: 0,
            frame_align: 16,
            used: u32::MAX,
            fixups: Vec::new(),
            prototypes: NameMap::default(),
            epilogue: Vec::new(),
            sinks: BTreeMap::new(),
        }
    }

    fn kernel(&mut self, function: &'d ptx::Function<'s>) -> Result<(), Box<Stop>> {
        function.name.clone_into(&mut self.program.name);
        let mut top = 0u32;
        for variable in &function.params {
            for name in &variable.names {
                let (size, align) = extent(variable, name).map_err(|e| {
                    let sentence = format!("kernel parameter `{}`: {e}", name.name);
                    Box::new(Stop::general(Blame::Gap, StopKind::Unsupported, sentence))
                })?;
                let size = u32::try_from(size.unwrap_or(0)).unwrap_or(u32::MAX);
                let offset = top.next_multiple_of(align);
                let end = offset.checked_add(size).filter(|end| *end <= 32_764);
                let Some(end) = end else {
                    let sentence = "kernel parameters exceed 32764 bytes";
                    return Err(Box::new(Stop::general(Blame::Input, StopKind::Launch, sentence)));
                };
                top = end;
                self.scopes.declare(name.name, Local::Param { offset });
                self.program.params.push(Parameter {
                    name: name.name.to_owned(),
                    ty: variable.ty.to_owned(),
                    offset,
                    size,
                    align,
                });
            }
        }
        self.program.bounds = LaunchBounds::of(function);
        let body = function.body.as_deref().unwrap_or(&[]);
        self.body(body);
        self.program.frame = self.frame;
        while let Some(number) = self.pending.pop() {
            self.device_function(number);
        }
        if self.program.code.len() > MAX_CODE || self.table_entries > MAX_CODE {
            let sentence = format!("the kernel has more than {MAX_CODE} instructions or branch targets");
            return Err(Box::new(Stop::general(Blame::Limit, StopKind::Limit, sentence)));
        }
        if let Some((pc, mut stop)) = self.refused.take() {
            stop.place = self.program.place(pc);
            return Err(stop);
        }
        Ok(())
    }

    /// Adds a way in which blocks can communicate.
    pub(super) fn communicate(&mut self, way: Communication) {
        self.program.communication = self.program.communication.max(way);
    }

    /// Schedules a function for decoding.
    pub(super) fn reach(&mut self, number: u32) {
        if let Some(seen) = self.seen.get_mut(at(number))
            && !std::mem::replace(seen, true)
        {
            self.pending.push(number);
        }
    }

    /// Schedules every function that a call through a pointer may reach. Functions whose address is taken later are
    /// scheduled at that point.
    pub(super) fn reach_taken(&mut self) {
        if !std::mem::replace(&mut self.indirect, true) {
            for number in self.taken.clone() {
                self.reach(number);
            }
        }
    }

    fn device_function(&mut self, number: u32) {
        let Some(function) = self
            .linked
            .functions
            .get(at(number))
            .and_then(|name| self.definitions.get(name.as_str()))
            .copied()
        else {
            return;
        };
        if function.entry {
            return;
        }
        self.scopes = Scopes::new();
        self.rows.clear();
        self.prototypes.clear();
        self.epilogue.clear();
        self.function = Some(number);
        let regs = &self.program.registers;
        let start = [regs.w32.len(), regs.w64.len(), regs.w128.len(), regs.preds.len()];
        let entry = self.pc();
        let (results, arguments, top) = formals(&function.returns, &function.params);
        self.frame = top;
        self.frame_align = 16;
        self.formal_names(&function.returns, &results, false);
        self.formal_names(&function.params, &arguments, true);
        let body = function.body.as_deref().unwrap_or(&[]);
        self.body(body);
        let regs = &self.program.registers;
        let end = [regs.w32.len(), regs.w64.len(), regs.w128.len(), regs.preds.len()];
        let callee = &mut self.program.callees[at(number)];
        callee.entry = Some(entry);
        callee.frame = self.frame;
        callee.align = self.frame_align;
        for (range, (from, to)) in callee.rows.iter_mut().zip(start.into_iter().zip(end)) {
            *range = (narrow(from), narrow(to));
        }
    }

    /// Declares results or parameters. Register parameters are passed in the frame.
    fn formal_names(&mut self, variables: &'d [ptx::Variable<'s>], places: &[(u32, u32)], incoming: bool) {
        let names = variables.iter().flat_map(|v| v.names.iter().map(move |n| (v, n)));
        for ((variable, name), &(offset, size)) in names.zip(places) {
            if variable.space == ptx::Space::Reg {
                let bits = ptx::type_bits(variable.ty).unwrap_or(32);
                self.scopes.declare(name.name, Local::Register { bits, vector: 1 });
                let Some((width, row)) = self.register(name.name) else { continue };
                if incoming {
                    let run = move |w: &mut Warp<'_, '_>, _: &Args| {
                        w.frame_to_row(width, row, offset, size);
                        crate::machine::Flow::Next
                    };
                    let writes = &[(width, row)];
                    self.emit(Emitted {
                        writes,
                        ..Emitted::new(Box::new(run), None, Op::Parameter, variable.span)
                    });
                } else {
                    self.epilogue.push((width, row, offset, size));
                }
            } else {
                self.scopes.declare(name.name, Local::Frame { offset, size });
            }
        }
    }

    pub(super) fn pc(&self) -> u32 {
        narrow(self.program.code.len())
    }

    fn body(&mut self, statements: &'d [ptx::Statement<'s>]) {
        self.collect_prototypes(statements);
        let first_site = self.program.call_sites.len();
        self.program.code.reserve(statements.len());
        self.program.metas.reserve(statements.len());
        self.statements(statements);
        // A function returns at its end.
        self.ret(None, ptx::Span::default());
        for fixup in std::mem::take(&mut self.fixups) {
            self.resolve_labels(&fixup);
        }
        let frame = self.frame;
        for site in &mut self.program.call_sites[first_site..] {
            site.frame = frame;
        }
    }

    fn collect_prototypes(&mut self, statements: &'d [ptx::Statement<'s>]) {
        for statement in statements {
            match statement {
                ptx::Statement::CallPrototype(prototype) => {
                    self.prototypes.insert(prototype.label, prototype);
                }
                ptx::Statement::Block(block) => self.collect_prototypes(&block.statements),
                _ => {}
            }
        }
    }

    fn resolve_labels(&mut self, fixup: &Fixup<'s>) {
        let found = if fixup.table {
            let mut targets = Vec::new();
            // Stops at the first label that does not exist, so a huge count costs nothing.
            let mut add = |label: &str| {
                let found = self.scopes.find_label(fixup.scope, label);
                targets.extend(found);
                found.is_some() && self.table_entries + targets.len() <= MAX_CODE
            };
            let complete = self.scopes.find_table(fixup.scope, fixup.label).is_some_and(|families| {
                families.iter().all(|(name, count)| match count {
                    None => add(name),
                    Some(count) => (0..*count).all(|i| add(&format!("{name}{i}"))),
                })
            });
            self.table_entries += targets.len();
            complete.then_some(targets)
        } else {
            self.scopes.find_label(fixup.scope, fixup.label).map(|pc| vec![pc])
        };
        let inst = &mut self.program.code[at(fixup.pc)];
        match found {
            Some(targets) if fixup.table => inst.args.targets = targets.into(),
            Some(targets) => inst.args.target = targets[0],
            None => {
                let sentence = format!("the label `{}` is not in this function", fixup.label);
                inst.run = crate::machine::refuse(Blame::Input, StopKind::Malformed, sentence);
            }
        }
    }

    fn statements(&mut self, statements: &'d [ptx::Statement<'s>]) {
        for statement in statements {
            match statement {
                ptx::Statement::Label(label) => {
                    let pc = self.pc();
                    self.scopes.label(label.name, pc);
                }
                ptx::Statement::Instruction(instruction) => self.instruction(instruction),
                ptx::Statement::Variable(variable) => self.variable(variable),
                ptx::Statement::Block(block) => {
                    self.scopes.enter();
                    self.statements(&block.statements);
                    self.scopes.leave();
                }
                ptx::Statement::BranchTargets(list) => {
                    let families = list.names.iter().map(|name| (name.name, name.count)).collect();
                    self.scopes.table(list.label, families);
                }
                ptx::Statement::Pragma(pragma) => {
                    let mut masks = pragma.texts.iter().filter_map(|text| used_bytes_mask(text));
                    self.used = masks.next_back().unwrap_or(u32::MAX);
                }
                ptx::Statement::Loc(_)
                | ptx::Statement::CallPrototype(_)
                | ptx::Statement::CallTargets(_)
                | ptx::Statement::Dwarf(_) => {}
            }
        }
    }

    fn variable(&mut self, variable: &'d ptx::Variable<'s>) {
        for name in &variable.names {
            match variable.space {
                ptx::Space::Reg => {
                    let bits = ptx::type_bits(variable.ty).unwrap_or(32);
                    let local = Local::Register { bits, vector: variable.vector.unwrap_or(1) };
                    match name.count {
                        Some(count) => self.scopes.declare_family(name.name, count, local),
                        None => self.scopes.declare(name.name, local),
                    }
                }
                ptx::Space::Local | ptx::Space::Param => {
                    let (size, align) = extent(variable, name).unwrap_or((Some(8), 8));
                    let size = u32::try_from(size.unwrap_or(0)).unwrap_or(1 << 30).min(1 << 30);
                    let offset = self.frame.min(1 << 30).next_multiple_of(align);
                    self.frame = offset.saturating_add(size);
                    self.frame_align = self.frame_align.max(align);
                    self.scopes.declare(name.name, Local::Frame { offset, size });
                }
                ptx::Space::Shared => {
                    let (size, align) = extent(variable, name).unwrap_or((Some(8), 8));
                    let size = size.map(|s| u32::try_from(s).unwrap_or(1 << 30).min(1 << 30));
                    let offset = self.place_shared(name.name, size, align);
                    if let Some(offset) = offset {
                        self.scopes.declare(name.name, Local::Shared { offset });
                    }
                }
                _ => {}
            }
        }
    }

    /// Allocates a shared variable; `None` for dynamic memory, whose offset is known only at the end.
    pub(super) fn place_shared(&mut self, name: &str, size: Option<u32>, align: u32) -> Option<u32> {
        let Some(size) = size else {
            self.shared.dynamic_align = self.shared.dynamic_align.max(align);
            self.shared.dynamic_named = true;
            return None;
        };
        let offset = self.shared.top.min(1 << 30).next_multiple_of(align);
        self.shared.top = offset.saturating_add(size);
        self.shared.variables.push((name.to_owned(), offset, size));
        Some(offset)
    }

    fn instruction(&mut self, instruction: &'d ptx::Instruction<'s>) {
        let used = std::mem::replace(&mut self.used, u32::MAX);
        if self.program.code.len() > MAX_CODE {
            // The kernel is rejected at the end.
            return;
        }
        let guard = match self.guard(instruction) {
            Ok(guard) => guard,
            Err(refusal) => return self.refusal(&refusal, None, instruction),
        };
        match instruction.opcode {
            "call" => return self.call(instruction, guard),
            "ret" => return self.ret(guard, instruction.span),
            _ => {}
        }
        let (entry, modifiers, needs) = match self.form(instruction) {
            Ok(found) => found.clone(),
            Err(known) => {
                let spelled =
                    std::iter::once(instruction.opcode).chain(instruction.modifiers.iter().copied());
                let spelled = spelled.collect::<Vec<_>>().join(".");
                let hint = match isa::gaps::reason(instruction.opcode, &instruction.modifiers) {
                    Some(reason) => format!(": {reason}"),
                    None if known => " with these modifiers".to_owned(),
                    None => String::new(),
                };
                let refusal = Refusal::Gap(format!("the instruction `{spelled}` is not supported{hint}"));
                return self.refusal(&refusal, guard, instruction);
            }
        };
        if self.refused.is_none()
            && let Some(stop) = self.linked.lacks(instruction, &needs)
        {
            self.refused = Some((self.pc(), stop));
        }
        let spec = Spec {
            modifiers,
            operands: instruction.operands.iter().map(|operand| self.shape(operand)).collect(),
            sm: self.linked.sm,
            used,
        };
        let bind = isa::table()[entry].definition.bind.at(self.level);
        let bound = match bind(&spec) {
            Ok(bound) => bound,
            Err(refusal) => return self.refusal(&refusal, guard, instruction),
        };
        let Some(op) = Op::of(&spec) else {
            let text = spec.modifiers.form().text;
            let refusal =
                Refusal::Gap(format!("what an instruction of the form `{text}` does is not described"));
            return self.refusal(&refusal, guard, instruction);
        };
        match self.operands(instruction, &bound.slots) {
            Ok(resolved) => {
                self.communicate(bound.communication);
                let pc = self.pc();
                for (label, table) in resolved.labels {
                    self.fixups.push(Fixup { pc, scope: self.scopes.current(), label, table });
                }
                let shaped = instruction.operands.iter().zip(&spec.operands).rev();
                let names =
                    self.names(shaped.filter(|(_, shape)| !shape.is_plain()).map(|(operand, _)| operand));
                self.emit(Emitted {
                    args: resolved.args,
                    entry: Some(entry),
                    reads: &resolved.reads,
                    writes: &resolved.writes,
                    names,
                    ..Emitted::new(bound.run, guard, op, instruction.span)
                });
                if let Some(inst) = self.program.code.last_mut() {
                    inst.inline = bound.inline;
                }
                if isa::table()[entry].form.operands.ends_with("membermask")
                    && let Some(meta) = self.program.metas.last_mut()
                {
                    meta.sources = bound.slots.iter().filter_map(isa::Slot::source).collect();
                }
            }
            Err(refusal) => self.refusal(&refusal, guard, instruction),
        }
    }

    pub(super) fn guard(
        &mut self,
        instruction: &ptx::Instruction<'s>,
    ) -> Result<Option<(u32, bool)>, Refusal> {
        let Some(guard) = instruction.guard else { return Ok(None) };
        match self.register(guard.register) {
            Some((Width::Pred, row)) => Ok(Some((row, guard.negated))),
            _ => {
                Err(Refusal::Malformed(format!("the guard `{}` is not a predicate register", guard.register)))
            }
        }
    }

    /// Emits a routine that only stops. It has no table entry: nothing of the instruction is executed.
    pub(super) fn refusal(
        &mut self,
        refusal: &Refusal,
        guard: Option<(u32, bool)>,
        instruction: &ptx::Instruction<'s>,
    ) {
        let run = match refusal {
            Refusal::Gap(sentence) => {
                crate::machine::refuse(Blame::Gap, StopKind::Unsupported, sentence.clone())
            }
            Refusal::Malformed(sentence) => crate::machine::refuse(
                Blame::Input,
                StopKind::Malformed,
                format!("malformed instruction: {sentence}"),
            ),
        };
        self.emit(Emitted::new(run, guard, Op::Refused, instruction.span));
    }

    fn ret(&mut self, guard: Option<(u32, bool)>, span: ptx::Span) {
        for (width, row, offset, size) in self.epilogue.clone() {
            let run = move |w: &mut Warp<'_, '_>, _: &Args| {
                w.row_to_frame(width, row, offset, size);
                crate::machine::Flow::Next
            };
            let reads = &[(width, row)];
            self.emit(Emitted { reads, ..Emitted::new(Box::new(run), guard, Op::Parameter, span) });
        }
        let entry = isa::find("ret", &[]).ok().map(|(entry, _)| entry);
        let run = Box::new(|w: &mut Warp<'_, '_>, _: &Args| w.ret());
        self.emit(Emitted { entry, ..Emitted::new(run, guard, Op::Return, span) });
    }

    pub(super) fn emit(&mut self, emitted: Emitted<'_>) {
        let Emitted { run, guard, args, op, entry, span, reads, writes, names } = emitted;
        let source = self.source_of(span);
        self.program.code.push(Inst { run, guard, args, inline: Inline::No, bundle: None });
        let guards = guard.map(|(row, _)| (Width::Pred, row));
        self.program.metas.push(Meta {
            op,
            entry,
            span: (span.start, span.end),
            function: self.function,
            source,
            sources: Box::default(),
            reads: reads.iter().copied().chain(guards).collect(),
            writes: writes.into(),
            specials: names.specials.into(),
            symbols: names.symbols.into(),
        });
    }

    fn source_of(&mut self, span: ptx::Span) -> Option<u32> {
        let location = self.lines.location(span.start)?;
        // Line 0 marks code that the compiler moved or generated: it belongs to no line.
        let lines = location.chain().take(64).filter(|location| location.line > 0);
        let chain: Vec<(String, u32, u32)> =
            lines.map(|line| (line.file.to_owned(), line.line, line.column)).collect();
        if chain.is_empty() {
            return None;
        }
        if let Some(id) = self.source_ids.get(&chain) {
            return Some(*id);
        }
        let id = narrow(self.program.sources.len());
        let lines = chain.iter().map(|(file, line, column)| SourceLine {
            file: file.clone(),
            line: *line,
            column: *column,
        });
        self.program.sources.push(lines.collect());
        self.source_ids.insert(chain, id);
        Some(id)
    }

    fn finish(mut self) -> Program {
        self.mark_recursion();
        let mut program = self.program;
        let dynamic = self.shared.top.min(1 << 30).next_multiple_of(self.shared.dynamic_align);
        program.lanes_wait = (0..program.code.len()).any(|pc| program.lets_wait(pc));
        if program.communication == Communication::Reductions && !program.ignores_atomics() {
            program.communication = Communication::Any;
        }
        program.time_rows = TimeRows::of(&program);
        program.static_shared = self.shared.top;
        program.dynamic_shared = self.shared.dynamic_named.then_some(dynamic);
        program.shared_variables = self.shared.variables;
        let regs = &mut program.registers;
        for (width, row, offset) in std::mem::take(&mut program.dynamic_rows) {
            let address = u64::from(dynamic).wrapping_add_signed(offset);
            match width {
                Width::W64 => regs.w64[at(row)] = Row::splat(address),
                _ => regs.w32[at(row)] = Row::splat(u32::try_from(address & 0xffff_ffff).unwrap_or(0)),
            }
        }
        super::bundle::find(&mut program, crate::machine::executes_bundle(self.level));
        program
    }

    /// A function is recursive if it can reach itself through calls; a call through a pointer may reach every function
    /// whose address is taken.
    fn mark_recursion(&mut self) {
        let count = self.program.callees.len();
        // One extra node represents everything that a call through a pointer may reach.
        let mut calls: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
        for (from, to) in &self.edges {
            if let Some(from) = from {
                calls[at(*from)].push(to.map_or(count, at));
            }
        }
        calls[count] = self.taken.iter().map(|number| at(*number)).collect();
        for (callee, recursive) in self.program.callees.iter_mut().zip(on_cycles(&calls)) {
            callee.recursive = recursive;
        }
    }
}

/// Which nodes of a graph can be reached from themselves: Tarjan's strongly connected components, without recursion.
fn on_cycles(edges: &[Vec<usize>]) -> Vec<bool> {
    const NEW: usize = usize::MAX;
    let mut out = vec![false; edges.len()];
    // The discovery order, and the earliest reachable node on the stack.
    let (mut order, mut low) = (vec![NEW; edges.len()], vec![0; edges.len()]);
    let mut on_stack = vec![false; edges.len()];
    let (mut stack, mut found) = (Vec::new(), 0);
    for start in 0..edges.len() {
        if order[start] != NEW {
            continue;
        }
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            if *next == 0 && order[node] == NEW {
                (order[node], low[node]) = (found, found);
                found += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            if let Some(&to) = edges[node].get(*next) {
                *next += 1;
                out[node] |= to == node;
                if order[to] == NEW {
                    path.push((to, 0));
                } else if on_stack[to] {
                    low[node] = low[node].min(order[to]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == order[node] {
                let first = stack.iter().rposition(|other| *other == node).unwrap_or(0);
                let component = stack.split_off(first);
                for member in &component {
                    on_stack[*member] = false;
                    out[*member] |= component.len() > 1;
                }
            }
        }
    }
    out
}

pub(super) fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The mask of `used_bytes_mask 3855`, a bit for each byte of the load that follows.
fn used_bytes_mask(text: &str) -> Option<u32> {
    let mask = text.trim().strip_prefix("used_bytes_mask")?.trim();
    match mask.strip_prefix("0x").or(mask.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => mask.parse().ok(),
    }
}
