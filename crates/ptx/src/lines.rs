//! Maps locations in PTX back to the CUDA source, by `.file` and `.loc`.

use std::collections::BTreeMap;

use crate::{Address, Directive, Loc, Module, SectionLine, SectionValue, Statement};

/// A location in the CUDA source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location<'s> {
    /// The file's name as `.file` gives it.
    pub file: &'s str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
    /// The (mangled) name of the inlined function that contains this location.
    pub function: Option<String>,
    /// Where that function was called from.
    pub inlined_at: Option<Box<Location<'s>>>,
}

impl<'s> Location<'s> {
    /// This location, then the calls that led to it, innermost first.
    pub fn chain(&self) -> impl Iterator<Item = &Location<'s>> {
        std::iter::successors(Some(self), |location| location.inlined_at.as_deref())
    }
}

/// The source locations of all instructions of a module.
#[derive(Clone, Debug, Default)]
pub struct LineTable<'s> {
    files: BTreeMap<u32, &'s str>,
    /// Sorted by offset.
    rows: Vec<Row<'s>>,
    /// Bytes of `.debug_str`, and where its labels are.
    names: Vec<u8>,
    labels: BTreeMap<&'s str, usize>,
}

/// Instructions from `offset` on belong to this location.
#[derive(Clone, Copy, Debug)]
struct Row<'s> {
    offset: u32,
    /// File, line and column; `None` at a function's start.
    place: Option<(u32, u32, u32)>,
    function_name: Option<Address<'s>>,
    inlined_at: Option<(u32, u32, u32)>,
    /// The row that describes the call, if the call itself was inlined; it always precedes this row.
    caller: Option<usize>,
}

impl<'s> LineTable<'s> {
    /// Collects `.file`, `.loc` and `.debug_str`.
    pub fn new(module: &Module<'s>) -> Self {
        let mut table = Self::default();
        for directive in &module.directives {
            match directive {
                Directive::File(file) => {
                    table.files.insert(file.index, file.name);
                }
                Directive::Section(section) if section.name == ".debug_str" => {
                    table.read_names(&section.lines);
                }
                Directive::Function(function) => {
                    if let Some(body) = &function.body {
                        let offset = function.span.start;
                        table.rows.push(Row {
                            offset,
                            place: None,
                            function_name: None,
                            inlined_at: None,
                            caller: None,
                        });
                        // The latest row of every location in this function.
                        let mut places = BTreeMap::new();
                        table.read_body(body, &mut places);
                    }
                }
                _ => {}
            }
        }
        // In an edited tree, statements may be in a different order than in the source.
        if !table.rows.is_sorted_by_key(|row| row.offset) {
            table.sort();
        }
        table
    }

    /// Whether the module has any `.loc`.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.place.is_none())
    }

    /// The location of the instruction whose span starts at `offset`; `None` if no `.loc` of its function precedes it.
    pub fn location(&self, offset: u32) -> Option<Location<'s>> {
        let index = self.rows.partition_point(|row| row.offset <= offset).checked_sub(1)?;
        self.resolve(index)
    }

    /// The name of a file by its index.
    pub fn file(&self, index: u32) -> Option<&'s str> {
        self.files.get(&index).copied()
    }

    fn read_body(&mut self, body: &[Statement<'s>], places: &mut BTreeMap<(u32, u32, u32), usize>) {
        for statement in body {
            match statement {
                Statement::Loc(loc) => self.read_loc(loc, places),
                Statement::Block(block) => self.read_body(&block.statements, places),
                _ => {}
            }
        }
    }

    fn read_loc(&mut self, loc: &Loc<'s>, places: &mut BTreeMap<(u32, u32, u32), usize>) {
        let place = (loc.file, loc.line, loc.column);
        let inlined_at = loc.inlined.as_ref().map(|inlined| (inlined.file, inlined.line, inlined.column));
        // The manual requires the `.loc` of the call to come first.
        let caller = inlined_at.and_then(|call| places.get(&call).copied());
        let function_name = loc.inlined.as_ref().and_then(|inlined| inlined.function_name);
        places.insert(place, self.rows.len());
        self.rows.push(Row { offset: loc.span.start, place: Some(place), function_name, inlined_at, caller });
    }

    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|&index| self.rows.get(index).map(|row| row.offset));
        let mut moved = vec![0; order.len()];
        for (to, &from) in order.iter().enumerate() {
            if let Some(slot) = moved.get_mut(from) {
                *slot = to;
            }
        }
        self.rows = order
            .iter()
            .filter_map(|&from| self.rows.get(from))
            .map(|row| Row { caller: row.caller.and_then(|caller| moved.get(caller).copied()), ..*row })
            .collect();
    }

    fn resolve(&self, index: usize) -> Option<Location<'s>> {
        // Iterates from the outermost call inward: recursion would let the input exhaust the stack.
        let mut chain = Vec::new();
        let mut next = Some(index);
        while let Some(row) = next.and_then(|index| self.rows.get(index)) {
            chain.push(row);
            next = row.caller;
            // In an edited tree the chain could be cyclic.
            if chain.len() > 256 {
                break;
            }
        }
        let mut outer: Option<Box<Location<'s>>> = None;
        for row in chain.iter().rev() {
            if outer.is_none() {
                outer = row.inlined_at.map(|place| Box::new(self.place(place)));
            }
            let mut location = self.place(row.place?);
            location.function = row.function_name.and_then(|label| self.name(label));
            // A call that is not itself inlined ends the chain.
            location.inlined_at = if row.inlined_at.is_some() { outer.take() } else { None };
            outer = Some(Box::new(location));
        }
        outer.map(|location| *location)
    }

    fn place(&self, (file, line, column): (u32, u32, u32)) -> Location<'s> {
        Location { file: self.file(file).unwrap_or("?"), line, column, function: None, inlined_at: None }
    }

    fn name(&self, label: Address<'s>) -> Option<String> {
        let start = match label.base? {
            ".debug_str" => 0,
            base => *self.labels.get(base)?,
        };
        let start = start.checked_add_signed(isize::try_from(label.offset).ok()?)?;
        let rest = self.names.get(start..)?;
        let end = memchr::memchr(0, rest)?;
        Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
    }

    fn read_names(&mut self, lines: &[SectionLine<'s>]) {
        for line in lines {
            match line {
                SectionLine::Label(name) => {
                    self.labels.insert(name, self.names.len());
                }
                SectionLine::Data { ty, values } => {
                    let bytes = match *ty {
                        "b8" => 1,
                        "b16" => 2,
                        "b32" => 4,
                        _ => 8,
                    };
                    for value in values {
                        let bits = match value {
                            SectionValue::Integer(integer) => integer.bits(),
                            SectionValue::Label(_) | SectionValue::Difference(_) => 0,
                        };
                        self.names.extend(bits.to_le_bytes().iter().take(bytes));
                    }
                }
            }
        }
    }
}
