//! The `call` instruction: to functions of the module, through pointers, and to the few functions that the device
//! itself provides.

use super::Communication;
use super::decode::{Decoder, Emitted, formals, narrow};
use super::link::Symbol;
use super::operands::Resolved;
use super::scope::Local;
use crate::device_functions;
use crate::isa::{Args, Callee, Op, Refusal, Run};
use crate::machine::{CallSite, Transfer, Type, Warp, Width, at};
use warpproof_ptx as ptx;

/// Functions that the device provides and that act on more than registers and memory.
const SYSTEM: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// The parts of a `call` as written.
struct Call<'s, 'd> {
    results: &'d [ptx::Operand<'s>],
    target: &'s str,
    arguments: &'d [ptx::Operand<'s>],
    prototype: Option<&'s str>,
}

fn parts<'s, 'd>(instruction: &'d ptx::Instruction<'s>) -> Option<Call<'s, 'd>> {
    let mut operands = instruction.operands.iter().peekable();
    let list =
        |operands: &mut std::iter::Peekable<std::slice::Iter<'d, ptx::Operand<'s>>>| match operands.peek() {
            Some(ptx::Operand::List(items)) => {
                operands.next();
                items.as_slice()
            }
            _ => &[],
        };
    let results = list(&mut operands);
    let Some(ptx::Operand::Name(target)) = operands.next() else { return None };
    let arguments = list(&mut operands);
    let prototype = match operands.next() {
        Some(ptx::Operand::Name(name)) => Some(*name),
        None => None,
        Some(_) => return None,
    };
    Some(Call { results, target, arguments, prototype })
}

impl<'s, 'd> Decoder<'s, 'd> {
    pub(super) fn call(&mut self, instruction: &'d ptx::Instruction<'s>, guard: Option<(u32, bool)>) {
        match self.call_routine(instruction) {
            Ok((run, reads, writes)) => {
                let entry = crate::isa::find("call", &[]).ok().map(|(entry, _)| entry);
                let op = Op::Call(self.callee(instruction));
                let names = self.names(instruction.operands.iter().rev());
                self.emit(Emitted {
                    entry,
                    reads: &reads,
                    writes: &writes,
                    names,
                    ..Emitted::new(run, guard, op, instruction.span)
                });
            }
            Err(refusal) => self.refusal(&refusal, guard, instruction),
        }
    }

    /// What a call calls.
    fn callee(&mut self, instruction: &'d ptx::Instruction<'s>) -> Callee {
        let Some(call) = parts(instruction) else { return Callee::Function };
        if self.register(call.target).is_some() {
            Callee::Pointer
        } else if SYSTEM.contains(&call.target) {
            Callee::System
        } else {
            Callee::Function
        }
    }

    #[expect(clippy::type_complexity, reason = "a routine and the rows it reads and writes")]
    fn call_routine(
        &mut self,
        instruction: &'d ptx::Instruction<'s>,
    ) -> Result<(Run, Vec<(Width, u32)>, Vec<(Width, u32)>), Refusal> {
        let call = parts(instruction).ok_or_else(|| Refusal::Malformed("malformed call".into()))?;
        if let Some((Width::W64, row)) = self.register(call.target) {
            let prototype = call.prototype.and_then(|name| self.prototypes.get(name)).copied();
            let Some(prototype) = prototype else {
                return Err(Refusal::Gap(
                    "a call through a pointer without a .callprototype is not supported".into(),
                ));
            };
            let (site, mut reads, writes) = self.site(&call, &prototype.returns, &prototype.params)?;
            self.edges.push((self.function, None));
            self.reach_taken();
            reads.push((Width::W64, row));
            let run = move |w: &mut Warp<'_, '_>, _: &Args| {
                let addresses = w.state.regs.w64[at(row)];
                w.call_indirect(site, &addresses)
            };
            return Ok((Box::new(run), reads, writes));
        }
        let Some(Symbol::Function(number)) = self.linked.symbols.get(call.target) else {
            return Err(Refusal::Malformed(format!("`{}` is not a function of this module", call.target)));
        };
        let number = *number;
        // An alias has a different name than its function.
        let name = self.linked.functions.get(at(number)).map_or(call.target, String::as_str);
        let Some(function) = self.declarations.get(name).copied() else {
            return Err(Refusal::Malformed(format!("`{}` is not declared", call.target)));
        };
        if function.body.is_none()
            && let Some(provided) = device_functions::find(name)
        {
            let (results, arguments) = self.frame_places(&call)?;
            if provided.communicates {
                self.communicate(Communication::Any);
            }
            let run = move |w: &mut Warp<'_, '_>, _: &Args| (provided.run)(w, &arguments, &results);
            return Ok((Box::new(run), Vec::new(), Vec::new()));
        }
        let (site, reads, writes) = self.site(&call, &function.returns, &function.params)?;
        self.edges.push((self.function, Some(number)));
        self.reach(number);
        Ok((Box::new(move |w: &mut Warp<'_, '_>, _: &Args| w.call(site, number)), reads, writes))
    }

    /// Offsets in the caller's frame of a call's results and arguments, all of which must be frame variables.
    fn frame_places(&mut self, call: &Call<'s, 'd>) -> Result<(Vec<u32>, Vec<u32>), Refusal> {
        let mut places = |operands: &[ptx::Operand<'s>]| {
            operands
                .iter()
                .map(|operand| match operand {
                    ptx::Operand::Name(name) => match self.scopes.find(name) {
                        Some((_, Local::Frame { offset, .. })) => Ok(offset),
                        _ => Err(Refusal::Gap(
                            "a register as argument of a device library function is not supported".into(),
                        )),
                    },
                    _ => Err(Refusal::Gap(
                        "an immediate as argument of a device library function is not supported".into(),
                    )),
                })
                .collect::<Result<Vec<u32>, Refusal>>()
        };
        Ok((places(call.results)?, places(call.arguments)?))
    }

    #[expect(clippy::type_complexity, reason = "the site and the rows the call reads and writes")]
    fn site(
        &mut self,
        call: &Call<'s, 'd>,
        returns: &[ptx::Variable<'s>],
        params: &[ptx::Variable<'s>],
    ) -> Result<(u32, Vec<(Width, u32)>, Vec<(Width, u32)>), Refusal> {
        let (results, arguments, _) = formals(returns, params);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let wrong = |what: &str, given: usize, wanted: usize| {
            Refusal::Malformed(format!("{given} {what}, but `{}` has {wanted}", call.target))
        };
        // A caller that was compiled apart may declare a result for a function that has none; it stays unwritten.
        if call.results.len() > results.len() && !results.is_empty() {
            return Err(wrong("results", call.results.len(), results.len()));
        }
        if call.arguments.len() != arguments.len() {
            return Err(wrong("arguments", call.arguments.len(), arguments.len()));
        }
        let types = params.iter().flat_map(|v| v.names.iter().map(move |_| v.ty));
        let mut site = CallSite { resume: self.pc() + 1, ..CallSite::default() };
        for ((operand, &(offset, size)), ty) in call.arguments.iter().zip(&arguments).zip(types) {
            let transfer = if let Some((from, _)) = self.frame_variable(operand) {
                Transfer::Memory { from, to: offset, size }
            } else {
                let ty = Type::parse(ty).unwrap_or(Type::B32);
                let mut resolved = Resolved::default();
                let row = self.source_row(operand, ty, &mut resolved)?;
                reads.extend(resolved.reads);
                Transfer::Register { width: ty.width(), row, offset, size }
            };
            site.arguments.push(transfer);
        }
        for (operand, &(offset, size)) in call.results.iter().zip(&results) {
            let transfer = match (self.frame_variable(operand), operand) {
                (Some((to, room)), _) => Transfer::Memory { from: offset, to, size: size.min(room) },
                (None, ptx::Operand::Name(name)) => {
                    let Some((width, row)) = self.register(name) else {
                        return Err(Refusal::Malformed(format!("`{name}` is not a register")));
                    };
                    writes.push((width, row));
                    Transfer::Register { width, row, offset, size }
                }
                (None, ptx::Operand::Sink) => continue,
                _ => return Err(Refusal::Malformed("a result must be a register or a parameter".into())),
            };
            site.results.push(transfer);
        }
        self.program.call_sites.push(site);
        Ok((narrow(self.program.call_sites.len() - 1), reads, writes))
    }

    fn frame_variable(&mut self, operand: &ptx::Operand<'s>) -> Option<(u32, u32)> {
        match operand {
            ptx::Operand::Name(name) => match self.scopes.find(name) {
                Some((_, Local::Frame { offset, size })) => Some((offset, size)),
                _ => None,
            },
            _ => None,
        }
    }
}
