//! Operands: resolves names, numbers and addresses in brackets to rows.

use super::decode::{Decoder, narrow};
use super::link::{Symbol, float_bits};
use super::scope::Local;
use super::special::{Special, SpecialKind, is_dynamic};
use crate::isa::{AddressArg, Args, Refusal, Shape, Slot};
use crate::machine::{Row, Type, Width, at};
use crate::memory::{FUNCTION_WINDOW, Space};
use smallvec::SmallVec;
use warpproof_ptx as ptx;

/// What the operands of an instruction name besides registers.
#[derive(Default)]
pub(super) struct Names {
    /// Special registers that are constant for a thread.
    pub(super) specials: Vec<SpecialKind>,
    /// Variables and functions.
    pub(super) symbols: Vec<String>,
}

impl<'s, 'd> Decoder<'s, 'd> {
    /// What operands name besides registers; the last operand comes first.
    pub(super) fn names<'o>(&mut self, operands: impl Iterator<Item = &'o ptx::Operand<'s>>) -> Names
    where
        's: 'o,
    {
        let mut names = Names::default();
        let mut open: Vec<&ptx::Operand<'s>> = operands.collect();
        while let Some(operand) = open.pop() {
            let name = match operand {
                ptx::Operand::Name(name) | ptx::Operand::Negated(name) | ptx::Operand::Not(name) => {
                    Some(*name)
                }
                ptx::Operand::Address(address) | ptx::Operand::Offset(address) => address.base,
                ptx::Operand::Element(element) => Some(element.name),
                ptx::Operand::Vector(items) | ptx::Operand::List(items) => {
                    open.extend(items.iter().rev());
                    None
                }
                ptx::Operand::Pair(pair) => {
                    open.extend([&pair.1, &pair.0]);
                    None
                }
                ptx::Operand::Sink
                | ptx::Operand::Integer(_)
                | ptx::Operand::Float(_)
                | ptx::Operand::Constant(_) => None,
                ptx::Operand::Compound(compound) => {
                    open.extend(compound.rest.iter().rev());
                    compound.address.base
                }
            };
            let Some(name) = name else { continue };
            let single = matches!(self.scopes.find(name), Some((_, Local::Register { vector: 0 | 1, .. })));
            if single || self.register(name).is_some() {
                continue;
            }
            if let Some((kind, _)) = SpecialKind::parse(name) {
                names.specials.push(kind);
            } else if self.scopes.find(name).is_some() || self.linked.symbols.contains_key(name) {
                names.symbols.push(name.to_owned());
            }
        }
        names
    }

    /// The row of a register, or of a component of a vector register, made when it is first used.
    pub(super) fn register(&mut self, name: &'s str) -> Option<(Width, u32)> {
        let (base, component) = ptx::component(name);
        let (scope, local) = self.scopes.find(base)?;
        let Local::Register { bits, vector } = local else { return None };
        let element = match (component, vector) {
            (None, 0 | 1) => 0,
            (Some(component), 2..) => element(component).filter(|element| *element < vector)?,
            _ => return None,
        };
        Some(self.register_row((scope, base, element), width_of(bits)))
    }

    fn register_row(&mut self, key: (usize, &'s str, u32), width: Width) -> (Width, u32) {
        if let Some(found) = self.rows.get(&key) {
            return *found;
        }
        let row = self.new_row(width);
        self.rows.insert(key, (width, row));
        (width, row)
    }

    /// The rows of a whole vector register.
    fn vector_register(&mut self, operand: &ptx::Operand<'s>) -> Option<Vec<(Width, u32)>> {
        let ptx::Operand::Name(name) = operand else { return None };
        match self.scopes.find(name) {
            Some((scope, Local::Register { bits, vector: vector @ 2.. })) => {
                let width = width_of(bits);
                Some((0..vector).map(|element| self.register_row((scope, name, element), width)).collect())
            }
            _ => None,
        }
    }

    pub(super) fn new_row(&mut self, width: Width) -> u32 {
        let regs = &mut self.program.registers;
        let count = match width {
            Width::Pred => {
                regs.preds.push(0);
                regs.preds.len()
            }
            Width::W32 => {
                regs.w32.push(Row::splat(0));
                regs.w32.len()
            }
            Width::W64 => {
                regs.w64.push(Row::splat(0));
                regs.w64.len()
            }
            Width::W128 => {
                regs.w128.push(Row::splat(0));
                regs.w128.len()
            }
        };
        narrow(count - 1)
    }

    /// The row that holds an address in shared memory. It is not that of an equal number: in a cluster it names the block too.
    fn shared_address(&mut self, width: Width, address: u64) -> u32 {
        if let Some(row) = self.shared_constants.get(&(width, address)) {
            return *row;
        }
        let row = self.new_row(width);
        if width == Width::W64 {
            self.program.registers.w64[at(row)] = Row::splat(address);
        } else {
            let address = u32::try_from(address & 0xffff_ffff).unwrap_or(0);
            self.program.registers.w32[at(row)] = Row::splat(address);
        }
        self.program.shared_rows.push((width, row));
        self.shared_constants.insert((width, address), row);
        row
    }

    /// The row that holds a constant.
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "narrowed to the width of the file"
    )]
    pub(super) fn constant(&mut self, width: Width, bits: u128) -> u32 {
        let bits = match width {
            Width::Pred => bits & 1,
            Width::W32 => u128::from(bits as u32),
            Width::W64 => u128::from(bits as u64),
            Width::W128 => bits,
        };
        if let Some(row) = self.constants.get(&(width, bits)) {
            return *row;
        }
        let row = self.new_row(width);
        let regs = &mut self.program.registers;
        match width {
            Width::Pred => regs.preds[at(row)] = if bits == 0 { 0 } else { u32::MAX },
            Width::W32 => regs.w32[at(row)] = Row::splat(bits as u32),
            Width::W64 => regs.w64[at(row)] = Row::splat(bits as u64),
            Width::W128 => regs.w128[at(row)] = Row::splat(bits),
        }
        self.constants.insert((width, bits), row);
        row
    }

    pub(super) fn special(&mut self, kind: SpecialKind, width: Width) -> u32 {
        if let Some(row) = self.special_rows.get(&(kind, width)) {
            return *row;
        }
        let row = self.new_row(width);
        self.program.specials.push(Special { kind, width, row });
        self.special_rows.insert((kind, width), row);
        row
    }

    /// The address of a symbol in its own space, and that space. `None` if it is not a variable or function.
    pub(super) fn address(&mut self, name: &'s str) -> Option<(u64, Space, bool)> {
        match self.scopes.find(name).map(|(_, local)| local) {
            Some(Local::Frame { offset, .. }) => return Some((u64::from(offset), Space::Local, true)),
            Some(Local::Param { offset }) => return Some((u64::from(offset), Space::Param, false)),
            Some(Local::Shared { offset }) => return Some((u64::from(offset), Space::Shared, false)),
            Some(Local::Register { .. }) => return None,
            None => {}
        }
        match self.linked.symbols.get(name)? {
            Symbol::Global { address, .. } => Some((*address, Space::Global, false)),
            Symbol::Const { offset, .. } => Some((*offset, Space::Const, false)),
            Symbol::Function(number) => {
                let number = *number;
                self.taken.insert(number);
                self.reach(number);
                Some((FUNCTION_WINDOW + 16 * u64::from(number), Space::Generic, false))
            }
            Symbol::Shared { size, align } => {
                let (size, align) = (*size, *align);
                if let Some(offset) = self.shared.named.get(name) {
                    return Some((u64::from(*offset), Space::Shared, false));
                }
                match self.place_shared(name, size, align) {
                    Some(offset) => {
                        self.shared.named.insert(name.to_owned(), offset);
                        Some((u64::from(offset), Space::Shared, false))
                    }
                    None => Some((DYNAMIC, Space::Shared, false)),
                }
            }
        }
    }

    pub(super) fn shape(&mut self, operand: &ptx::Operand<'s>) -> Shape {
        match operand {
            ptx::Operand::Name(name) => {
                match self.scopes.find(ptx::component(name).0) {
                    Some((_, Local::Register { bits, vector: vector @ 2.. })) if !name.contains('.') => {
                        return Shape::Vector((0..vector).map(|_| Shape::Register(bits)).collect());
                    }
                    Some((_, Local::Register { bits, .. })) => return Shape::Register(bits),
                    _ => {}
                }
                if *name == "WARP_SZ" {
                    return Shape::Integer(32);
                }
                if SpecialKind::parse(name).is_some() || is_dynamic(name) {
                    return Shape::Special((*name).to_owned());
                }
                match self.scopes.find(name) {
                    Some((_, Local::Frame { offset, .. })) => Shape::Frame(offset),
                    Some(_) => Shape::Symbol((*name).to_owned()),
                    None if self.linked.symbols.contains_key(*name) => Shape::Symbol((*name).to_owned()),
                    None => Shape::Other,
                }
            }
            ptx::Operand::Not(name) | ptx::Operand::Negated(name) => self.shape(&ptx::Operand::Name(name)),
            ptx::Operand::Sink => Shape::Sink,
            ptx::Operand::Integer(integer) => Shape::Integer(integer.signed()),
            ptx::Operand::Constant(expression) => {
                expression.value().map_or(Shape::Other, |value| Shape::Integer(value.bits.cast_signed()))
            }
            ptx::Operand::Float(float) => Shape::Float(float.value()),
            ptx::Operand::Offset(address) => match address.base.map(|base| self.scopes.find(base)) {
                Some(Some((_, Local::Frame { offset, .. }))) => {
                    Shape::Frame(offset.wrapping_add_signed(i32::try_from(address.offset).unwrap_or(0)))
                }
                _ => Shape::Symbol(address.base.unwrap_or("").to_owned()),
            },
            ptx::Operand::Address(_) | ptx::Operand::Element(_) => Shape::Address,
            ptx::Operand::Vector(items) => Shape::Vector(items.iter().map(|item| self.shape(item)).collect()),
            ptx::Operand::Pair(pair) => Shape::Pair(Box::new((self.shape(&pair.0), self.shape(&pair.1)))),
            ptx::Operand::Compound(compound) if compound.suffix.is_none() => {
                Shape::Image(compound.rest.iter().map(|part| self.shape(part)).collect())
            }
            ptx::Operand::Compound(_) | ptx::Operand::List(_) => Shape::Other,
        }
    }

    pub(super) fn operands(
        &mut self,
        instruction: &'d ptx::Instruction<'s>,
        slots: &[Slot],
    ) -> Result<Resolved<'s>, Refusal> {
        if instruction.operands.len() != slots.len() {
            let (given, wanted) = (instruction.operands.len(), slots.len());
            return Err(Refusal::Malformed(format!(
                "{given} operands, but this form of `{}` takes {wanted}",
                instruction.opcode
            )));
        }
        let mut resolved = Resolved::default();
        let mut rows: Rows = SmallVec::new();
        let mut addresses = 0;
        for (operand, slot) in instruction.operands.iter().zip(slots) {
            match slot {
                Slot::Dst(width) => rows.push(self.destination(operand, *width, &mut resolved)?),
                Slot::Src(ty) => self.source(operand, *ty, &mut rows, &mut resolved)?,
                Slot::DstVec(widths) if let Some(found) = self.vector_register(operand) => {
                    same(&found, widths.iter().copied())?;
                    rows.extend(found.iter().map(|(_, row)| *row));
                    resolved.writes.extend(found);
                }
                Slot::SrcVec(types) if let Some(found) = self.vector_register(operand) => {
                    same(&found, types.iter().map(|ty| ty.width()))?;
                    rows.extend(found.iter().map(|(_, row)| *row));
                    resolved.reads.extend(found);
                }
                Slot::DstVec(widths) => {
                    for (item, width) in elements(operand, widths.len())?.iter().zip(widths) {
                        rows.push(self.destination(item, *width, &mut resolved)?);
                    }
                }
                Slot::UpdateVec(widths) => {
                    let before = resolved.writes.len();
                    for (item, width) in elements(operand, widths.len())?.iter().zip(widths) {
                        rows.push(self.destination(item, *width, &mut resolved)?);
                    }
                    let updated: Vec<(Width, u32)> = resolved.writes.iter().skip(before).copied().collect();
                    resolved.reads.extend(updated);
                }
                Slot::SrcVec(types) => {
                    for (item, ty) in elements(operand, types.len())?.iter().zip(types) {
                        self.source(item, *ty, &mut rows, &mut resolved)?;
                    }
                }
                Slot::DstPair(width) => {
                    let (first, second) = match operand {
                        ptx::Operand::Pair(pair) => (&pair.0, &pair.1),
                        single => (single, &ptx::Operand::Sink),
                    };
                    rows.push(self.destination(first, *width, &mut resolved)?);
                    rows.push(self.destination(second, Width::Pred, &mut resolved)?);
                }
                Slot::DstVecPair(widths) => {
                    let ptx::Operand::Pair(pair) = operand else {
                        return Err(Refusal::Malformed("expected registers and a predicate".into()));
                    };
                    for (item, width) in elements(&pair.0, widths.len())?.iter().zip(widths) {
                        rows.push(self.destination(item, *width, &mut resolved)?);
                    }
                    rows.push(self.destination(&pair.1, Width::Pred, &mut resolved)?);
                }
                Slot::Image(types) => self.image(operand, types, &mut rows, &mut resolved)?,
                Slot::Tensor(types) => {
                    let arg = self.tensor(operand, types, &mut rows, &mut resolved)?;
                    if let Some(place) = resolved.args.at.get_mut(addresses) {
                        *place = arg;
                    }
                    addresses += 1;
                }
                Slot::Address => {
                    let arg = self.address_operand(operand, &mut resolved)?;
                    if let Some(place) = resolved.args.at.get_mut(addresses) {
                        *place = arg;
                    }
                    addresses += 1;
                }
                Slot::Label | Slot::Table => match operand {
                    ptx::Operand::Name(name) => resolved.labels.push((name, *slot == Slot::Table)),
                    _ => return Err(Refusal::Malformed("expected a label".into())),
                },
                Slot::Static => {}
            }
        }
        for (place, row) in resolved.args.o.iter_mut().zip(&rows) {
            *place = *row;
        }
        resolved.args.all = rows.as_slice().into();
        resolved.args.addresses = addresses;
        Ok(resolved)
    }

    /// A name that is neither a register nor a variable, and may be a part of a register (`r1.h10`).
    fn undefined(&mut self, name: &'s str, what: &str) -> Refusal {
        match name.rsplit_once('.') {
            Some((register, part)) if part.starts_with(['b', 'h']) && self.register(register).is_some() => {
                Refusal::Gap(format!("the selector `.{part}` of a video instruction is not supported"))
            }
            _ => Refusal::Malformed(format!("`{name}` {what}")),
        }
    }

    fn destination(
        &mut self,
        operand: &ptx::Operand<'s>,
        width: Width,
        resolved: &mut Resolved<'s>,
    ) -> Result<u32, Refusal> {
        match operand {
            ptx::Operand::Sink => Ok(self.sink(width)),
            ptx::Operand::Name(name) => match self.register(name) {
                Some((found, row)) if found == width => {
                    resolved.writes.push((width, row));
                    Ok(row)
                }
                Some((found, _)) => Err(Refusal::Malformed(format!(
                    "`{name}` is {}, but {} is required for the result",
                    describe(found),
                    describe(width)
                ))),
                None => Err(self.undefined(name, "is not a register")),
            },
            _ => Err(Refusal::Malformed("expected a register as the result".into())),
        }
    }

    fn sink(&mut self, width: Width) -> u32 {
        if let Some(row) = self.sinks.get(&width) {
            return *row;
        }
        let row = self.new_row(width);
        self.sinks.insert(width, row);
        row
    }

    fn source(
        &mut self,
        operand: &ptx::Operand<'s>,
        ty: Type,
        rows: &mut Rows,
        resolved: &mut Resolved<'s>,
    ) -> Result<(), Refusal> {
        if let ptx::Operand::Not(_) = operand
            && ty == Type::Pred
        {
            resolved.args.not |= Args::negation(rows.len());
        }
        let row = self.source_row(operand, ty, resolved)?;
        rows.push(row);
        Ok(())
    }

    /// The row of a source operand read as a type.
    pub(super) fn source_row(
        &mut self,
        operand: &ptx::Operand<'s>,
        ty: Type,
        resolved: &mut Resolved<'s>,
    ) -> Result<u32, Refusal> {
        let width = ty.width();
        match operand {
            ptx::Operand::Name(name) | ptx::Operand::Not(name)
                if matches!(operand, ptx::Operand::Name(_)) || ty == Type::Pred =>
            {
                if let Some((found, row)) = self.register(name) {
                    if found != width {
                        let sentence =
                            format!("`{name}` is {}, but {} is required", describe(found), describe(width));
                        return Err(Refusal::Malformed(sentence));
                    }
                    resolved.reads.push((width, row));
                    return Ok(row);
                }
                if *name == "WARP_SZ" {
                    return Ok(self.constant(width, 32));
                }
                if let Some((kind, bits)) = SpecialKind::parse(name) {
                    let fits = if bits == 1 {
                        Width::Pred == width
                    } else {
                        matches!(width, Width::W32 | Width::W64)
                    };
                    if !fits {
                        return Err(Refusal::Malformed(format!(
                            "found `{name}`, but {} is required",
                            describe(width)
                        )));
                    }
                    return Ok(self.special(kind, width));
                }
                if is_dynamic(name) {
                    return Err(Refusal::Gap(format!("`{name}` outside `mov` is not supported")));
                }
                match self.address(name) {
                    Some((address, space, frame)) => self.symbol_row(width, (address, space), frame, 0),
                    None if name.starts_with('%') => {
                        Err(Refusal::Gap(format!("the special register `{name}` is not supported")))
                    }
                    None => Err(self.undefined(name, "is not defined")),
                }
            }
            ptx::Operand::Integer(integer) => {
                let bits = if ty.is_float() { number_bits(integer.signed(), ty) } else { integer.bits() };
                Ok(self.constant(width, extend(bits, integer.negative)))
            }
            ptx::Operand::Constant(expression) => match expression.value() {
                Some(value) => {
                    Ok(self.constant(width, extend(value.bits, !value.unsigned && value.bits >> 63 != 0)))
                }
                None => Err(Refusal::Malformed("not a constant expression".into())),
            },
            ptx::Operand::Float(float) => {
                let name = match ty {
                    Type::F64 | Type::B64 | Type::U64 | Type::S64 => "f64",
                    _ => "f32",
                };
                Ok(self.constant(width, u128::from(float_bits(*float, name))))
            }
            ptx::Operand::Offset(address) => match address.base.map(|base| self.address(base)) {
                Some(Some((base, space, frame))) => {
                    self.symbol_row(width, (base, space), frame, address.offset)
                }
                _ => Err(Refusal::Malformed("an offset requires a variable".into())),
            },
            ptx::Operand::Element(element) if element.index != 0 => Err(indexed(element)),
            ptx::Operand::Element(element) => match self.address(element.name) {
                Some((base, space, frame)) => self.symbol_row(width, (base, space), frame, 0),
                None => Err(Refusal::Malformed(format!("`{}` is not a variable", element.name))),
            },
            _ => Err(Refusal::Malformed("this operand cannot be used as a source".into())),
        }
    }

    fn symbol_row(
        &mut self,
        width: Width,
        (address, space): (u64, Space),
        frame: bool,
        offset: i64,
    ) -> Result<u32, Refusal> {
        if frame && self.function.is_some() {
            return Err(Refusal::Gap(
                "the address of a frame variable outside `mov` and addresses is not supported".into(),
            ));
        }
        if !matches!(width, Width::W32 | Width::W64) {
            return Err(Refusal::Malformed(format!("found an address, but {} is required", describe(width))));
        }
        if address == DYNAMIC {
            let row = self.new_row(width);
            self.program.dynamic_rows.push((width, row, offset));
            self.program.shared_rows.push((width, row));
            return Ok(row);
        }
        if space == Space::Shared {
            return Ok(self.shared_address(width, address.wrapping_add_signed(offset)));
        }
        Ok(self.constant(width, u128::from(address.wrapping_add_signed(offset))))
    }

    /// `[handle]` or `[handle, {x, y}]`: the rows of the handle and of the coordinates.
    fn image(
        &mut self,
        operand: &ptx::Operand<'s>,
        types: &[Type],
        rows: &mut Rows,
        resolved: &mut Resolved<'s>,
    ) -> Result<(), Refusal> {
        let (address, rest) = match operand {
            ptx::Operand::Address(address) => (*address, &[][..]),
            ptx::Operand::Compound(compound) => (compound.address, compound.rest.as_slice()),
            _ => return Err(Refusal::Malformed("expected a texture or a surface in brackets".into())),
        };
        match address.base.map(|base| (base, self.register(base))) {
            Some((_, Some((Width::W64, row)))) if address.offset == 0 => {
                resolved.reads.push((Width::W64, row));
                rows.push(row);
            }
            Some((base, None)) => {
                return Err(Refusal::Gap(format!(
                    "`{base}` is a texture or surface reference, which is not supported; use an object, whose handle is in a register"
                )));
            }
            _ => return Err(Refusal::Malformed("expected a handle in a 64-bit register".into())),
        }
        match rest {
            [] if types.is_empty() => Ok(()),
            [coordinates] if !types.is_empty() => {
                if let Some(found) = self.vector_register(coordinates) {
                    same(&found, types.iter().map(|ty| ty.width()))?;
                    rows.extend(found.iter().map(|(_, row)| *row));
                    resolved.reads.extend(found);
                    return Ok(());
                }
                for (item, ty) in elements(coordinates, types.len())?.iter().zip(types) {
                    self.source(item, *ty, rows, resolved)?;
                }
                Ok(())
            }
            [_, _] => Err(Refusal::Gap("a separate sampler is not supported".into())),
            _ => Err(Refusal::Malformed("expected one vector of coordinates".into())),
        }
    }

    /// `[map, {x, y}]`: the address of the map, and a row for each coordinate.
    fn tensor(
        &mut self,
        operand: &ptx::Operand<'s>,
        types: &[Type],
        rows: &mut Rows,
        resolved: &mut Resolved<'s>,
    ) -> Result<AddressArg, Refusal> {
        let ptx::Operand::Compound(compound) = operand else {
            return Err(Refusal::Malformed("expected a tensor map and coordinates in brackets".into()));
        };
        let arg = self.address_operand(&ptx::Operand::Address(compound.address), resolved)?;
        let [coordinates] = compound.rest.as_slice() else {
            return Err(Refusal::Malformed("expected one vector of coordinates".into()));
        };
        if let Some(found) = self.vector_register(coordinates) {
            same(&found, types.iter().map(|ty| ty.width()))?;
            rows.extend(found.iter().map(|(_, row)| *row));
            resolved.reads.extend(found);
            return Ok(arg);
        }
        for (item, ty) in elements(coordinates, types.len())?.iter().zip(types) {
            self.source(item, *ty, rows, resolved)?;
        }
        Ok(arg)
    }

    fn address_operand(
        &mut self,
        operand: &ptx::Operand<'s>,
        resolved: &mut Resolved<'s>,
    ) -> Result<AddressArg, Refusal> {
        let address = match operand {
            ptx::Operand::Address(address) => *address,
            ptx::Operand::Element(element) if element.index != 0 => return Err(indexed(element)),
            ptx::Operand::Element(element) => ptx::Address::new(Some(element.name), 0),
            ptx::Operand::Compound(compound) if compound.rest.is_empty() => compound.address,
            _ => return Err(Refusal::Malformed("expected an address in brackets".into())),
        };
        let Some(base) = address.base else {
            let row = self.constant(Width::W64, u128::from(address.offset.cast_unsigned()));
            return Ok(AddressArg { row, wide: true, frame: false, offset: 0 });
        };
        if let Some((width, row)) = self.register(base) {
            resolved.reads.push((width, row));
            return match width {
                Width::W64 => Ok(AddressArg { row, wide: true, frame: false, offset: address.offset }),
                Width::W32 => Ok(AddressArg { row, wide: false, frame: false, offset: address.offset }),
                _ => Err(Refusal::Malformed(format!("`{base}` cannot hold an address"))),
            };
        }
        match self.address(base) {
            Some((DYNAMIC, _, _)) => {
                let row = self.new_row(Width::W64);
                self.program.dynamic_rows.push((Width::W64, row, 0));
                Ok(AddressArg { row, wide: true, frame: false, offset: address.offset })
            }
            Some((at, _, frame)) => {
                let row = self.constant(Width::W64, u128::from(at));
                Ok(AddressArg { row, wide: true, frame, offset: address.offset })
            }
            None => Err(Refusal::Malformed(format!("`{base}` is not defined"))),
        }
    }
}

/// The rows of the operands of one instruction.
type Rows = SmallVec<[u32; 8]>;

/// The operands of one instruction, resolved.
#[derive(Default)]
pub(super) struct Resolved<'s> {
    pub(super) args: Args,
    pub(super) labels: Vec<(&'s str, bool)>,
    pub(super) reads: SmallVec<[(Width, u32); 4]>,
    pub(super) writes: SmallVec<[(Width, u32); 4]>,
}

/// Placeholder for the start of dynamic shared memory until it is known.
const DYNAMIC: u64 = u64::MAX;

/// The elements of a vector operand: `{a, b}`, or a single operand where one is expected.
fn elements<'o, 's>(operand: &'o ptx::Operand<'s>, count: usize) -> Result<&'o [ptx::Operand<'s>], Refusal> {
    let items = match operand {
        ptx::Operand::Vector(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    if items.len() == count { Ok(items) } else { Err(miscounted(items.len(), count)) }
}

fn miscounted(given: usize, wanted: usize) -> Refusal {
    Refusal::Malformed(format!("a vector of {given} elements, but {wanted} are required"))
}

/// Whether a vector register has the number of elements that an operand takes.
fn same(found: &[(Width, u32)], wanted: impl ExactSizeIterator<Item = Width>) -> Result<(), Refusal> {
    if found.len() != wanted.len() {
        return Err(miscounted(found.len(), wanted.len()));
    }
    match found.iter().zip(wanted).find(|((found, _), wanted)| found != wanted) {
        None => Ok(()),
        Some(((found, _), wanted)) => Err(Refusal::Malformed(format!(
            "each element of the vector register is {}, but {} is required",
            describe(*found),
            describe(wanted)
        ))),
    }
}

/// The index of a component of a vector register: each has two names.
fn element(component: &str) -> Option<u32> {
    match component {
        "x" | "r" => Some(0),
        "y" | "g" => Some(1),
        "z" | "b" => Some(2),
        "w" | "a" => Some(3),
        _ => None,
    }
}

fn width_of(bits: u32) -> Width {
    match bits {
        1 => Width::Pred,
        2..=32 => Width::W32,
        33..=64 => Width::W64,
        _ => Width::W128,
    }
}

fn describe(width: Width) -> &'static str {
    match width {
        Width::Pred => "a predicate",
        Width::W32 => "a register of at most 32 bits",
        Width::W64 => "a 64-bit register",
        Width::W128 => "a 128-bit register",
    }
}

fn extend(bits: u64, negative: bool) -> u128 {
    if negative { u128::from(bits) | u128::MAX << 64 } else { u128::from(bits) }
}

/// An integer literal used as a floating-point value.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "rounds to nearest")]
fn number_bits(value: i64, ty: Type) -> u64 {
    match ty {
        Type::F64 => (value as f64).to_bits(),
        Type::F32 => u64::from((value as f32).to_bits()),
        _ => value.cast_unsigned(),
    }
}

/// `array[4]` counts elements, whose size is not stored with the symbol.
fn indexed(element: &ptx::Element<'_>) -> Refusal {
    Refusal::Gap(format!(
        "the element `{}[{}]` is not supported; write its byte offset",
        element.name, element.index
    ))
}
