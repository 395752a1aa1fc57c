//! Names inside a function: registers, frame variables, labels, by scope.

use super::NameMap;

/// The meaning of a local name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Local {
    /// A register with its width in bits (1 for a predicate) and its number of elements.
    Register { bits: u32, vector: u32 },
    /// A variable in the function's frame.
    Frame { offset: u32, size: u32 },
    /// A parameter of the kernel.
    Param { offset: u32 },
    /// A shared variable declared inside a function.
    Shared { offset: u32 },
}

#[derive(Debug, Default)]
struct Scope<'s> {
    parent: Option<usize>,
    names: NameMap<&'s str, Local>,
    /// `%r<5>`: the prefix, the count, the register.
    families: NameMap<&'s str, (u32, Local)>,
    labels: NameMap<&'s str, u32>,
    /// The labels of a branch table: single ones, and `L<5>` for `L0` to `L4`.
    tables: NameMap<&'s str, Vec<(&'s str, Option<u32>)>>,
    /// Names of families and of enclosing scopes that were looked up here, since most registers are named many times.
    known: NameMap<&'s str, (usize, Local)>,
}

/// The scopes of one function.
#[derive(Debug)]
pub(super) struct Scopes<'s> {
    scopes: Vec<Scope<'s>>,
    current: usize,
}

impl<'s> Scopes<'s> {
    pub(super) fn new() -> Self {
        Scopes { scopes: vec![Scope::default()], current: 0 }
    }

    pub(super) fn enter(&mut self) {
        self.scopes.push(Scope { parent: Some(self.current), ..Scope::default() });
        self.current = self.scopes.len() - 1;
    }

    pub(super) fn leave(&mut self) {
        self.current = self.scopes[self.current].parent.unwrap_or(0);
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    pub(super) fn declare(&mut self, name: &'s str, local: Local) {
        let scope = &mut self.scopes[self.current];
        scope.names.insert(name, local);
        scope.known.clear();
    }

    pub(super) fn declare_family(&mut self, prefix: &'s str, count: u32, local: Local) {
        let scope = &mut self.scopes[self.current];
        scope.families.insert(prefix, (count, local));
        scope.known.clear();
    }

    pub(super) fn label(&mut self, name: &'s str, pc: u32) {
        self.scopes[self.current].labels.insert(name, pc);
    }

    pub(super) fn table(&mut self, name: &'s str, labels: Vec<(&'s str, Option<u32>)>) {
        self.scopes[self.current].tables.insert(name, labels);
    }

    fn up(&self, from: usize) -> impl Iterator<Item = (usize, &Scope<'s>)> {
        std::iter::successors(Some(from), |i| self.scopes[*i].parent).map(|i| (i, &self.scopes[i]))
    }

    /// The meaning of a name here, and the scope that declares it.
    pub(super) fn find(&mut self, name: &'s str) -> Option<(usize, Local)> {
        if let Some(known) = self.scopes[self.current].known.get(name) {
            return Some(*known);
        }
        let found = self.search(name)?;
        self.scopes[self.current].known.insert(name, found);
        Some(found)
    }

    fn search(&self, name: &str) -> Option<(usize, Local)> {
        // No count has more than ten digits.
        let first_digit = name.len() - name.bytes().rev().take(10).take_while(u8::is_ascii_digit).count();
        self.up(self.current).find_map(|(i, scope)| {
            if let Some(local) = scope.names.get(name) {
                return Some((i, *local));
            }
            if scope.families.is_empty() {
                return None;
            }
            (first_digit..name.len()).find_map(|split| {
                let (prefix, number) = name.split_at(split);
                let (count, local) = scope.families.get(prefix)?;
                let number: u32 = number.parse().ok()?;
                (number < *count).then_some((i, *local))
            })
        })
    }

    pub(super) fn find_label(&self, from: usize, name: &str) -> Option<u32> {
        self.up(from).find_map(|(_, scope)| scope.labels.get(name).copied())
    }

    pub(super) fn find_table(&self, from: usize, name: &str) -> Option<&[(&'s str, Option<u32>)]> {
        self.up(from).find_map(|(_, scope)| scope.tables.get(name).map(Vec::as_slice))
    }
}
