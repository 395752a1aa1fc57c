//! Graphs: constructed or captured, instantiated, launched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::abi::{Answer, Error};
use crate::conditional::inner;
use crate::driver::Driver;
use crate::stream::Target;
use crate::work::{HostCall, Work};

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its work.
    pub work: Work,
    /// The nodes it depends on.
    pub after: Vec<u64>,
    /// The graph that a child node owns: a copy of the one it was created from.
    pub child: Option<u64>,
    /// The graphs that a conditional node owns.
    pub bodies: Vec<u64>,
    /// Addresses of its arguments, for the program that reads its parameters.
    pub shown: Vec<usize>,
}

impl Node {
    /// A node without a child graph.
    pub fn new(work: Work, after: Vec<u64>) -> Node {
        Node { work, after, child: None, bodies: Vec::new(), shown: Vec::new() }
    }
}

/// A graph: nodes in the order of insertion.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The nodes.
    pub nodes: BTreeMap<u64, Node>,
    /// References to objects of the program.
    pub objects: BTreeMap<u64, u32>,
    /// The variables of conditional nodes, and their values at the start of a launch, if any.
    pub conditions: BTreeMap<u64, Option<u32>>,
    /// Whether a node owns it.
    pub embedded: bool,
    /// The graph it is a copy of, if any.
    pub original: Option<u64>,
    /// Its nodes by the nodes that they are copies of.
    pub copies: BTreeMap<u64, u64>,
}

/// An object of the program with a reference count: graphs keep it, and its destructor is called when no reference is left.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The destructor.
    pub destructor: HostCall,
    /// The number of references.
    pub references: u32,
}

/// An executable graph: its work in an order that respects the edges.
#[derive(Clone, Debug)]
pub struct Executable {
    /// Nodes of the original graph, with their current work.
    pub steps: Vec<(u64, Work)>,
    /// `cuGraphInstantiateWithFlags`.
    pub flags: u64,
    /// References to objects of the program.
    pub objects: BTreeMap<u64, u32>,
    /// Nodes that do not run.
    pub disabled: BTreeSet<u64>,
    /// The variables of conditional nodes, and their values at the start of a launch, if any.
    pub conditions: Vec<(u64, Option<u32>)>,
}

impl Executable {
    /// Checks that a node can be disabled: a launch, a copy or a memset of this graph.
    pub fn known(&self, node: u64) -> Answer {
        let step = self.steps.iter().find(|(known, _)| *known == node);
        match step {
            Some((_, Work::Launch(_) | Work::Copy(_) | Work::Set(_))) => Ok(()),
            _ => Err(Error::INVALID_VALUE),
        }
    }
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const AUTO_FREE: u64 = 1;

/// An active capture.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The graph that receives the nodes.
    pub graph: u64,
    /// Whether the graph existed before.
    pub existing: bool,
    /// The stream in which it began.
    pub origin: u64,
    /// The context.
    pub context: u64,
    /// The last nodes of each participating stream.
    pub tails: BTreeMap<u64, Vec<u64>>,
    /// `CUstreamCaptureMode`.
    pub mode: u32,
    /// Whether an operation occurred that cannot be captured.
    pub invalid: bool,
    /// The thread in which it began.
    pub thread: std::thread::ThreadId,
    /// The last nodes that the program asked for; they stay valid until it asks again.
    pub shown: Vec<usize>,
    /// The data of their edges, all default.
    pub edges: Vec<u64>,
}

impl Graph {
    /// Nodes in topological order, ties in order of insertion. A cycle is an error.
    pub fn order(&self) -> Answer<Vec<u64>> {
        let mut waiting: BTreeMap<u64, usize> = BTreeMap::new();
        let mut next: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (handle, node) in &self.nodes {
            waiting.insert(*handle, node.after.len());
            for before in &node.after {
                next.entry(*before).or_default().push(*handle);
            }
        }
        let mut free: BTreeSet<u64> =
            waiting.iter().filter(|(_, count)| **count == 0).map(|(n, _)| *n).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(node) = free.pop_first() {
            order.push(node);
            for then in next.get(&node).into_iter().flatten() {
                if let Some(count) = waiting.get_mut(then) {
                    *count -= 1;
                    if *count == 0 {
                        free.insert(*then);
                    }
                }
            }
        }
        if order.len() == self.nodes.len() { Ok(order) } else { Err(Error::INVALID_VALUE) }
    }

    /// Edges, as pairs of nodes.
    pub fn edges(&self) -> Vec<(u64, u64)> {
        self.nodes.iter().flat_map(|(to, node)| node.after.iter().map(|from| (*from, *to))).collect()
    }

    /// Whether it has conditional nodes. CUDA does not copy such a graph.
    pub fn is_conditional(&self) -> bool {
        !self.conditions.is_empty() || self.nodes.values().any(|node| !node.bodies.is_empty())
    }

    /// Whether nodes allocate or free memory. CUDA does not copy such a graph, nor remove nodes or edges from it.
    pub fn has_memory(&self) -> bool {
        self.nodes.values().any(|node| matches!(node.work, Work::Allocate(_) | Work::Free(_)))
    }

    /// The graph in the language of Graphviz. `graph` is its handle.
    pub fn dot(&self, graph: u64) -> String {
        let name = |node: u64| format!("\"graph_{}_node_{}\"", id(graph), id(node));
        let mut text = String::from("digraph dot {\n");
        for (handle, node) in &self.nodes {
            let _ = writeln!(text, "{}[shape=\"record\" label=\"{}\"];", name(*handle), node.work.name());
        }
        for (from, to) in self.edges() {
            let _ = writeln!(text, "{} -> {};", name(from), name(to));
        }
        text.push_str("}\n");
        text
    }
}

/// The number of a graph or node: handles are unique in the process and multiples of 16.
pub fn id(handle: u64) -> u32 {
    u32::try_from((handle >> 4) & u64::from(u32::MAX)).unwrap_or(0)
}

/// The memory that allocation nodes of this work reserve.
fn reserved(work: &Work, bases: &mut BTreeSet<u64>) {
    match work {
        Work::Allocate(base) => {
            bases.insert(*base);
        }
        Work::Child(works) => works.iter().for_each(|work| reserved(work, bases)),
        _ => {}
    }
}

/// Flattens child graphs into one list.
fn flatten(works: Vec<Work>, flat: &mut Vec<Work>) {
    for work in works {
        match work {
            Work::Child(inner) => flatten(inner, flat),
            work => flat.push(work),
        }
    }
}

impl Driver {
    /// `cuGraphCreate`.
    pub fn create_graph(&mut self) -> Answer<u64> {
        self.ready()?;
        let handle = self.handle();
        self.graphs.insert(handle, Graph::default());
        Ok(handle)
    }

    /// A graph by its handle.
    pub fn graph(&mut self, handle: u64) -> Answer<&mut Graph> {
        self.ready()?;
        self.graphs.get_mut(&handle).ok_or(Error::INVALID_VALUE)
    }

    /// A node by its handle.
    pub fn node(&mut self, handle: u64) -> Answer<&mut Node> {
        self.ready()?;
        self.graphs.values_mut().find_map(|graph| graph.nodes.get_mut(&handle)).ok_or(Error::INVALID_VALUE)
    }

    /// Checks that nodes are distinct nodes of a graph, and sorts them.
    pub fn known_nodes(&mut self, graph: u64, nodes: &[u64]) -> Answer<Vec<u64>> {
        let graph = self.graph(graph)?;
        let mut unique = nodes.to_vec();
        unique.sort_unstable();
        unique.dedup();
        let known = unique.len() == nodes.len() && unique.iter().all(|node| graph.nodes.contains_key(node));
        if known { Ok(unique) } else { Err(Error::INVALID_VALUE) }
    }

    /// Adds a node.
    pub fn add_node(&mut self, graph: u64, work: Work, after: &[u64]) -> Answer<u64> {
        let handle = self.handle();
        let after = self.known_nodes(graph, after)?;
        self.graph(graph)?.nodes.insert(handle, Node::new(work, after));
        Ok(handle)
    }

    /// Adds a node that owns a copy of a graph.
    pub fn add_child(&mut self, graph: u64, child: u64, after: &[u64]) -> Answer<u64> {
        self.known_nodes(graph, after)?;
        self.steps(child)?;
        let copy = self.copy_graph(child)?;
        self.graph(copy)?.embedded = true;
        let node = self.add_node(graph, Work::Child(Vec::new()), after)?;
        self.node(node)?.child = Some(copy);
        Ok(node)
    }

    /// Adds a node that takes over a graph, which stays usable as the graph of the node.
    pub fn move_child(&mut self, graph: u64, child: u64, after: &[u64]) -> Answer<u64> {
        self.known_nodes(graph, after)?;
        self.steps(child)?;
        if self.graph(child)?.embedded || self.contains(child, graph) {
            return Err(Error::INVALID_VALUE);
        }
        self.graph(child)?.embedded = true;
        let node = self.add_node(graph, Work::Child(Vec::new()), after)?;
        self.node(node)?.child = Some(child);
        Ok(node)
    }

    /// Whether a graph is another one, or inside it.
    fn contains(&self, outer: u64, graph: u64) -> bool {
        let inside = |known: &Graph| inner(known).into_iter().any(|next| self.contains(next, graph));
        outer == graph || self.graphs.get(&outer).is_some_and(inside)
    }

    /// `cuGraphClone`: the copy has nodes of its own, and references to the same objects.
    pub fn copy_graph(&mut self, source: u64) -> Answer<u64> {
        let mut graph = self.graph(source)?.clone();
        if graph.has_memory() || graph.is_conditional() {
            return Err(Error::NOT_SUPPORTED);
        }
        let copies: BTreeMap<u64, u64> = graph.nodes.keys().map(|node| (*node, self.handle())).collect();
        let new = |node: u64| copies.get(&node).copied().unwrap_or(node);
        let mut nodes = BTreeMap::new();
        for (handle, mut node) in graph.nodes {
            node.after.iter_mut().for_each(|before| *before = new(*before));
            node.shown.clear();
            if let Some(child) = node.child {
                let copy = self.copy_graph(child)?;
                self.graph(copy)?.embedded = true;
                node.child = Some(copy);
            }
            nodes.insert(new(handle), node);
        }
        self.retain(&graph.objects);
        (graph.nodes, graph.copies) = (nodes, copies);
        (graph.original, graph.embedded) = (Some(source), false);
        let handle = self.handle();
        self.graphs.insert(handle, graph);
        Ok(handle)
    }

    /// Destroys a graph and the graphs of its child nodes. Destructors of objects are due afterwards.
    pub fn destroy_graph(&mut self, handle: u64) -> Answer {
        let graph = self.graphs.remove(&handle).ok_or(Error::INVALID_VALUE)?;
        for child in inner(&graph) {
            self.destroy_graph(child)?;
        }
        self.release_all(&graph.objects);
        self.release_reserved();
        self.release_conditions();
        Ok(())
    }

    /// Adds references to objects.
    fn retain(&mut self, objects: &BTreeMap<u64, u32>) {
        for (object, count) in objects {
            if let Some(object) = self.objects.get_mut(object) {
                object.references = object.references.saturating_add(*count);
            }
        }
    }

    /// Removes references to an object. The destructor of an object without references is due.
    pub fn release_object(&mut self, handle: u64, count: u32) -> Answer {
        let object = self.objects.get_mut(&handle).ok_or(Error::INVALID_VALUE)?;
        object.references = object.references.checked_sub(count).ok_or(Error::INVALID_VALUE)?;
        if object.references == 0 {
            self.due.push(object.destructor);
            self.objects.remove(&handle);
        }
        Ok(())
    }

    /// Removes the references of a graph.
    pub fn release_all(&mut self, objects: &BTreeMap<u64, u32>) {
        for (object, count) in objects {
            // It exists: the graph has references to it.
            let _ = self.release_object(*object, *count);
        }
    }

    /// Frees the memory of allocation nodes that no longer exist, unless the program uses it.
    pub fn release_reserved(&mut self) {
        let unused: Vec<u64> =
            self.memory.iter().filter(|(_, a)| a.live == Some(false)).map(|(base, _)| *base).collect();
        if unused.is_empty() {
            return;
        }
        let mut needed = BTreeSet::new();
        for work in self.graphs.values().flat_map(|graph| graph.nodes.values()).map(|node| &node.work) {
            reserved(work, &mut needed);
        }
        for (_, work) in self.executables.values().flat_map(|executable| &executable.steps) {
            reserved(work, &mut needed);
        }
        for base in unused.into_iter().filter(|base| !needed.contains(base)) {
            // It exists, so this cannot fail.
            let _ = self.release_memory(base);
        }
    }

    /// The work of a graph in order, with the node of each.
    fn steps(&mut self, graph: u64) -> Answer<Vec<(u64, Work)>> {
        let graph = self.graph(graph)?.clone();
        let mut steps = Vec::new();
        for handle in graph.order()? {
            let Some(node) = graph.nodes.get(&handle) else { continue };
            let work = match (node.child, &node.work) {
                (Some(child), _) => self.child_work(child)?,
                (None, Work::Conditional(conditional)) => self.conditional_work(conditional, &node.bodies)?,
                (None, Work::Launch(call)) => {
                    // Nodes run one after the other: only a kernel that runs directly after the one that it depends on overlaps it.
                    let mut call = call.clone();
                    let last = steps.last().filter(|(_, work)| matches!(work, Work::Launch(_)));
                    call.programmatic.serialization &= last.is_some_and(|(last, _)| node.after == [*last]);
                    Work::Launch(call)
                }
                (None, work) => work.clone(),
            };
            steps.push((handle, work));
        }
        Ok(steps)
    }

    /// The work of a child node with this graph.
    pub fn child_work(&mut self, graph: u64) -> Answer<Work> {
        Ok(Work::Child(self.steps(graph)?.into_iter().map(|(_, work)| work).collect()))
    }

    /// References to objects of a graph and of the graphs of its child nodes.
    fn objects_of(&mut self, graph: u64) -> Answer<BTreeMap<u64, u32>> {
        let graph = self.graph(graph)?.clone();
        let mut objects = graph.objects.clone();
        for child in inner(&graph) {
            for (object, count) in self.objects_of(child)? {
                *objects.entry(object).or_default() += count;
            }
        }
        Ok(objects)
    }

    /// `cuGraphInstantiate`.
    pub fn instantiate(&mut self, graph: u64, flags: u64) -> Answer<u64> {
        let (steps, objects) = (self.steps(graph)?, self.objects_of(graph)?);
        self.retain(&objects);
        let handle = self.handle();
        let disabled = BTreeSet::new();
        let conditions = self.conditions_of(graph);
        self.executables.insert(handle, Executable { steps, flags, objects, disabled, conditions });
        Ok(handle)
    }

    /// `cuGraphExecUpdate`: the same nodes with other parameters.
    pub fn update_executable(&mut self, executable: u64, graph: u64) -> Answer {
        let (new, objects) = (self.steps(graph)?, self.objects_of(graph)?);
        let ready = self.executables.get_mut(&executable).ok_or(Error::INVALID_VALUE)?;
        let alike = new.len() == ready.steps.len()
            && new
                .iter()
                .zip(&ready.steps)
                .all(|((_, a), (_, b))| std::mem::discriminant(a) == std::mem::discriminant(b));
        if !alike {
            return Err(Error::GRAPH_EXEC_UPDATE_FAILURE);
        }
        // Later updates refer to the old nodes.
        for ((_, old), (_, work)) in ready.steps.iter_mut().zip(new) {
            *old = work;
        }
        let before = std::mem::replace(&mut ready.objects, objects.clone());
        self.retain(&objects);
        self.release_all(&before);
        Ok(())
    }

    /// `cuGraphLaunch`: returns the work to perform in order; empty if the stream is capturing.
    pub fn launch_graph(&mut self, target: Target, executable: u64) -> Answer<Vec<Work>> {
        let ready = self.executables.get(&executable).ok_or(Error::INVALID_VALUE)?;
        let enabled = ready.steps.iter().filter(|(node, _)| !ready.disabled.contains(node));
        let assigned = ready.conditions.iter().filter_map(|(variable, value)| Some((*variable, (*value)?)));
        let assigned: Vec<(u64, u32)> = assigned.collect();
        let first = (!assigned.is_empty()).then_some(Work::Assign(assigned));
        let works: Vec<Work> = first.into_iter().chain(enabled.map(|(_, work)| work.clone())).collect();
        let flags = ready.flags;
        if self.streams.get(&target.stream).is_some_and(|stream| stream.capture.is_some()) {
            self.unless_captured(target, Work::Child(works))?;
            return Ok(Vec::new());
        }
        let mut bases = BTreeSet::new();
        for work in &works {
            reserved(work, &mut bases);
        }
        let live = self.memory.iter_mut().filter(|(base, a)| bases.contains(base) && a.live == Some(true));
        for (_, allocation) in live {
            if flags & AUTO_FREE == 0 {
                return Err(Error::INVALID_VALUE);
            }
            allocation.live = Some(false);
        }
        let mut flat = Vec::new();
        flatten(works, &mut flat);
        Ok(flat)
    }

    /// `cuStreamBeginCapture`.
    pub fn begin_capture(&mut self, target: Target, mode: u32, into: Option<(u64, Vec<u64>)>) -> Answer {
        if target.legacy {
            return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
        }
        if mode > 2 {
            return Err(Error::INVALID_VALUE);
        }
        let stream = self.streams.get(&target.stream).ok_or(Error::INVALID_HANDLE)?;
        if stream.capture.is_some() {
            return Err(Error::ILLEGAL_STATE);
        }
        let existing = into.is_some();
        let (graph, tail) = match into {
            Some((graph, tail)) => (graph, self.known_nodes(graph, &tail)?),
            None => (self.create_graph()?, Vec::new()),
        };
        let handle = self.handle();
        if let Some(stream) = self.streams.get_mut(&target.stream) {
            stream.capture = Some(handle);
        }
        let capture = Capture {
            graph,
            existing,
            origin: target.stream,
            context: target.context,
            tails: BTreeMap::from([(target.stream, tail)]),
            mode,
            invalid: false,
            thread: std::thread::current().id(),
            shown: Vec::new(),
            edges: Vec::new(),
        };
        self.captures.insert(handle, capture);
        Ok(())
    }

    /// Abandons a capture that can never end, because its stream was destroyed.
    pub fn abandon(&mut self, handle: u64) {
        if let Some(capture) = self.captures.remove(&handle).filter(|capture| !capture.existing) {
            // The program may have destroyed the graph.
            let _ = self.destroy_graph(capture.graph);
        }
        for stream in self.streams.values_mut().filter(|stream| stream.capture == Some(handle)) {
            stream.capture = None;
        }
        for event in
            self.events.values_mut().filter(|e| e.captured.as_ref().is_some_and(|(c, _)| *c == handle))
        {
            event.captured = None;
        }
    }

    /// The capture of a blocking stream, that is, a stream that the legacy default stream synchronizes with.
    pub fn captured_blocking(&self, context: u64) -> Option<u64> {
        let blocking = |stream: &&crate::stream::Stream| stream.context == context && stream.flags & 1 == 0;
        self.streams.values().filter(blocking).find_map(|stream| stream.capture)
    }

    /// Invalidates a capture after an operation that cannot be captured.
    pub fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.invalid = true;
        }
    }

    /// Adds work of a capturing stream as a node; events join streams.
    pub fn captured(&mut self, handle: u64, stream: u64, work: Work) -> Answer {
        let capture = self.captures.get_mut(&handle).ok_or(Error::STREAM_CAPTURE_INVALIDATED)?;
        if capture.invalid {
            return Err(Error::STREAM_CAPTURE_INVALIDATED);
        }
        let tail = capture.tails.entry(stream).or_default();
        match work {
            Work::Record(event) => {
                let tail = tail.clone();
                let event = self.events.get_mut(&event).ok_or(Error::INVALID_HANDLE)?;
                event.captured = Some((handle, tail));
            }
            Work::Wait(event) => match self.events.get(&event).ok_or(Error::INVALID_HANDLE)?.captured.clone()
            {
                Some((other, nodes)) if other == handle => {
                    tail.extend(nodes);
                    tail.sort_unstable();
                    tail.dedup();
                }
                Some(_) => {
                    capture.invalid = true;
                    return Err(Error::STREAM_CAPTURE_MERGE);
                }
                None => {
                    capture.invalid = true;
                    return Err(Error::STREAM_CAPTURE_ISOLATION);
                }
            },
            work => return self.capture_node(handle, stream, work),
        }
        Ok(())
    }

    /// Adds work, including events, as a node of a capture.
    pub fn capture_node(&mut self, handle: u64, stream: u64, work: Work) -> Answer {
        let node = self.handle();
        let capture = self.captures.get_mut(&handle).filter(|capture| !capture.invalid);
        let capture = capture.ok_or(Error::STREAM_CAPTURE_INVALIDATED)?;
        let graph = self.graphs.get_mut(&capture.graph).ok_or(Error::STREAM_CAPTURE_INVALIDATED)?;
        let after = std::mem::replace(capture.tails.entry(stream).or_default(), vec![node]);
        graph.nodes.insert(node, Node::new(work, after));
        Ok(())
    }

    /// Makes a stream wait for an event; the event of a capture adds the stream to that capture.
    pub fn wait(&mut self, target: Target, event: u64) -> Answer {
        self.ready()?;
        let captured = self.events.get(&event).ok_or(Error::INVALID_HANDLE)?.captured.clone();
        let stream = self.streams.get_mut(&target.stream).ok_or(Error::INVALID_HANDLE)?;
        if let (Some((capture, _)), None) = (&captured, stream.capture) {
            if target.legacy {
                return Err(Error::STREAM_CAPTURE_IMPLICIT);
            }
            if self.captures.contains_key(capture) {
                stream.capture = Some(*capture);
            }
        }
        // Otherwise there is nothing to wait for: the event is recorded after earlier work has ended.
        if self.unless_captured(target, Work::Wait(event))?.is_some() {
            self.submitted(target, &Work::Wait(event));
        }
        Ok(())
    }

    /// `cuStreamEndCapture`.
    pub fn end_capture(&mut self, target: Target) -> Answer<u64> {
        let stream = self.streams.get(&target.stream).ok_or(Error::INVALID_HANDLE)?;
        let handle = stream.capture.ok_or(Error::ILLEGAL_STATE)?;
        let known = self.captures.get(&handle).ok_or(Error::STREAM_CAPTURE_INVALIDATED)?;
        if known.origin != target.stream {
            return Err(Error::STREAM_CAPTURE_UNMATCHED);
        }
        if known.mode != 2 && known.thread != std::thread::current().id() {
            return Err(Error::STREAM_CAPTURE_WRONG_THREAD);
        }
        for stream in self.streams.values_mut().filter(|stream| stream.capture == Some(handle)) {
            stream.capture = None;
        }
        for event in
            self.events.values_mut().filter(|e| e.captured.as_ref().is_some_and(|(c, _)| *c == handle))
        {
            event.captured = None;
        }
        let capture = self.captures.remove(&handle).ok_or(Error::STREAM_CAPTURE_INVALIDATED)?;
        let joined = self.joined(&capture);
        if joined.is_err() && !capture.existing {
            // The program may have destroyed the graph.
            let _ = self.destroy_graph(capture.graph);
        }
        joined.map(|()| capture.graph)
    }

    /// Whether a capture is valid, and the last work of every other stream precedes the last work of the stream where it began.
    fn joined(&mut self, capture: &Capture) -> Answer {
        if capture.invalid {
            return Err(Error::STREAM_CAPTURE_INVALIDATED);
        }
        let graph = self.graph(capture.graph).map_err(|_| Error::STREAM_CAPTURE_INVALIDATED)?;
        let mut reached = BTreeSet::new();
        let mut next = capture.tails.get(&capture.origin).cloned().unwrap_or_default();
        while let Some(node) = next.pop() {
            if reached.insert(node) {
                next.extend(graph.nodes.get(&node).into_iter().flat_map(|node| node.after.clone()));
            }
        }
        if capture.tails.values().flatten().any(|node| !reached.contains(node)) {
            return Err(Error::STREAM_CAPTURE_UNJOINED);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_after_what_they_wait_for_and_a_circle_is_refused() {
        let node = |after: &[u64]| Node::new(Work::Empty, after.to_vec());
        let mut graph = Graph::default();
        graph.nodes.insert(1, node(&[3]));
        graph.nodes.insert(2, node(&[]));
        graph.nodes.insert(3, node(&[2]));
        assert_eq!(graph.order().unwrap(), [2, 3, 1]);
        graph.nodes.insert(2, node(&[1]));
        assert_eq!(graph.order(), Err(Error::INVALID_VALUE));
    }
}
