//! Conditional nodes of graphs: bodies that run depending on a variable that kernels set.
//!
//! The variable's handle is the address of four bytes of device memory, so `cudaGraphSetConditional` is a store. Compilers leave that
//! function to the driver, which defines it in the text of each module that declares it.

use std::collections::BTreeSet;

use crate::abi::{Answer, Error};
use crate::driver::Driver;
use crate::graph::Graph;
use crate::work::Work;

/// `CUgraphConditionalNodeType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Runs the first body if the value is not 0, otherwise the second one, if there is one.
    If,
    /// Runs the body while the value is not 0.
    While,
    /// Runs the body with the value as its index.
    Switch,
}

impl Kind {
    /// The kind with this number and this number of bodies.
    pub fn new(number: u32, bodies: u32) -> Answer<Kind> {
        match (number, bodies) {
            (0, 1 | 2) => Ok(Kind::If),
            (1, 1) => Ok(Kind::While),
            (2, 1..=MOST_BODIES) => Ok(Kind::Switch),
            _ => Err(Error::INVALID_VALUE),
        }
    }

    /// Its number.
    pub fn number(self) -> u32 {
        match self {
            Kind::If => 0,
            Kind::While => 1,
            Kind::Switch => 2,
        }
    }
}

/// Bodies of a node, so that a wrong number does not fill the memory.
const MOST_BODIES: u32 = 1 << 16;
/// Runs of a body in one launch, so that a loop ends.
pub const MOST_RUNS: usize = 1 << 20;

/// The work of a conditional node.
#[derive(Clone, Debug)]
pub struct Conditional {
    /// The address of its variable.
    pub variable: u64,
    /// When its bodies run.
    pub kind: Kind,
    /// The work of each body.
    pub bodies: Vec<Vec<Work>>,
}

impl Conditional {
    /// The body that runs for a value.
    pub fn body(&self, value: u32) -> Option<&[Work]> {
        let index = match self.kind {
            Kind::If | Kind::While if value != 0 => 0,
            Kind::If => 1,
            Kind::While => return None,
            Kind::Switch => usize::try_from(value).ok()?,
        };
        self.bodies.get(index).map(Vec::as_slice)
    }
}

/// Whether a body may contain this work.
fn is_allowed(work: &Work) -> bool {
    match work {
        Work::Launch(_) | Work::Copy(_) | Work::Set(_) | Work::Empty | Work::Conditional(_) => true,
        Work::Child(works) => works.iter().all(is_allowed),
        _ => false,
    }
}

impl Driver {
    /// `cuGraphConditionalHandleCreate`: a variable, with the value that it gets at the start of each launch, if any.
    pub fn create_condition(&mut self, graph: u64, default: Option<u32>) -> Answer<u64> {
        self.current()?;
        self.graph(graph)?;
        let variable = self.gpu.memory().allocate("a graph's condition", 4);
        let variable = variable.map_err(|_| Error::OUT_OF_MEMORY)?;
        // The memory was just allocated, so this cannot fail.
        let _ = self.gpu.memory().write(variable, &[0; 4]);
        self.conditions.insert(variable);
        self.graph(graph)?.conditions.insert(variable, default);
        Ok(variable)
    }

    /// Adds a conditional node and returns it with its empty bodies.
    pub fn add_conditional(
        &mut self,
        graph: u64,
        variable: u64,
        (kind, bodies): (u32, u32),
        after: &[u64],
    ) -> Answer<(u64, &[u64])> {
        let kind = Kind::new(kind, bodies)?;
        if !self.conditions.contains(&variable) {
            return Err(Error::INVALID_VALUE);
        }
        self.known_nodes(graph, after)?;
        let mut made = Vec::new();
        for _ in 0..bodies {
            let body = self.create_graph()?;
            self.graph(body)?.embedded = true;
            made.push(body);
        }
        let work = Work::Conditional(Box::new(Conditional { variable, kind, bodies: Vec::new() }));
        let handle = self.add_node(graph, work, after)?;
        let node = self.node(handle)?;
        node.bodies = made;
        Ok((handle, &node.bodies))
    }

    /// The work of a conditional node with these bodies.
    pub fn conditional_work(&mut self, node: &Conditional, bodies: &[u64]) -> Answer<Work> {
        let mut works = Vec::new();
        for body in bodies {
            let Work::Child(work) = self.child_work(*body)? else { return Err(Error::INVALID_VALUE) };
            if !work.iter().all(is_allowed) {
                return Err(Error::INVALID_VALUE);
            }
            works.push(work);
        }
        Ok(Work::Conditional(Box::new(Conditional { bodies: works, ..node.clone() })))
    }

    /// The variables of a graph and of the graphs inside it, each with its value at the start of a launch.
    pub fn conditions_of(&self, graph: u64) -> Vec<(u64, Option<u32>)> {
        let Some(graph) = self.graphs.get(&graph) else { return Vec::new() };
        let mut found: Vec<(u64, Option<u32>)> =
            graph.conditions.iter().map(|(at, value)| (*at, *value)).collect();
        for inner in inner(graph) {
            found.extend(self.conditions_of(inner));
        }
        found
    }

    /// The value of a variable.
    pub fn condition(&self, variable: u64) -> u32 {
        let heap = self.gpu.heap();
        let bytes = heap.read(variable, 4).ok();
        bytes.and_then(|bytes| Some(u32::from_le_bytes(bytes.as_ref().try_into().ok()?))).unwrap_or(0)
    }

    /// Sets variables.
    pub fn assign(&mut self, values: &[(u64, u32)]) {
        for (variable, value) in values {
            // It exists as long as a graph or an executable graph has it.
            let _ = self.gpu.memory().write(*variable, &value.to_le_bytes());
        }
    }

    /// Frees variables that no graph and no executable graph has, unless a kernel runs that may have one: then a later call does.
    pub fn release_conditions(&mut self) {
        if self.conditions.is_empty() || !self.running.is_empty() {
            return;
        }
        let mut needed: BTreeSet<u64> =
            self.graphs.values().flat_map(|graph| graph.conditions.keys().copied()).collect();
        needed.extend(self.executables.values().flat_map(|ready| ready.conditions.iter().map(|(at, _)| *at)));
        for variable in self.conditions.iter().filter(|variable| !needed.contains(variable)) {
            // It exists, so this cannot fail.
            let _ = self.gpu.memory().free(*variable);
        }
        self.conditions.retain(|variable| needed.contains(variable));
    }
}

/// The graphs inside a graph: those of child nodes, and bodies of conditional nodes.
pub fn inner(graph: &Graph) -> Vec<u64> {
    graph.nodes.values().flat_map(|node| node.child.iter().chain(&node.bodies).copied()).collect()
}

const SETTER: &str = ".extern .func cudaGraphSetConditional";

/// The text of a module with a definition of `cudaGraphSetConditional` in place of its declaration. No line moves.
pub fn with_setter(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(SETTER)?;
    let (parameters, after) = rest.split_once(';')?;
    let mut names = parameters
        .split(['(', ',', ')'])
        .filter_map(|part| part.contains(".param").then(|| part.split_whitespace().next_back()).flatten());
    let (handle, value) = (names.next()?, names.next()?);
    Some(format!(
        "{before}.visible .func cudaGraphSetConditional{parameters}{{ .reg .b64 %handle; .reg .b32 %value; \
         ld.param.b64 %handle, [{handle}]; ld.param.b32 %value, [{value}]; \
         st.relaxed.gpu.global.b32 [%handle], %value; ret; }}{after}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_selects_a_body() {
        let with =
            |kind: Kind, count: usize| Conditional { variable: 0, kind, bodies: vec![Vec::new(); count] };
        assert!(with(Kind::If, 1).body(7).is_some() && with(Kind::If, 1).body(0).is_none());
        assert!(with(Kind::If, 2).body(0).is_some());
        assert!(with(Kind::While, 1).body(1).is_some() && with(Kind::While, 1).body(0).is_none());
        assert!(with(Kind::Switch, 3).body(2).is_some() && with(Kind::Switch, 3).body(3).is_none());
        assert_eq!(Kind::new(1, 2), Err(Error::INVALID_VALUE));
        assert_eq!(Kind::new(2, u32::MAX), Err(Error::INVALID_VALUE));
    }

    #[test]
    fn the_declaration_becomes_a_definition_on_the_same_lines() {
        let text = ".version 9.4\n.extern .func cudaGraphSetConditional\n(\n.param .b64 p0,\n.param .b32 p1\n)\n;\n.entry k()\n";
        let defined = with_setter(text).unwrap();
        assert_eq!(defined.lines().count(), text.lines().count());
        assert!(defined.contains("ld.param.b64 %handle, [p0]; ld.param.b32 %value, [p1];"), "{defined}");
        assert!(defined.ends_with("\n.entry k()\n"));
        assert_eq!(with_setter(".entry k()"), None);
        assert_eq!(with_setter(".extern .func cudaGraphSetConditional ("), None);
    }
}
