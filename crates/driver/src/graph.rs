//! Graphs: constructed or captured, instantiated, launched.

use std::collections::{BTreeMap, BTreeSet};

use crate::abi::{Answer, Error};
use crate::driver::Driver;
use crate::stream::Target;
use crate::work::Work;

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its work.
    pub work: Work,
    /// The nodes it depends on.
    pub after: Vec<u64>,
    /// The graph that a child node was created from.
    pub child: Option<u64>,
}

/// A graph: nodes in the order of insertion.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The nodes.
    pub nodes: BTreeMap<u64, Node>,
}

/// An executable graph: its work in an order that respects the edges.
#[derive(Clone, Debug)]
pub struct Executable {
    /// Nodes of the original graph, with their current work.
    pub steps: Vec<(u64, Work)>,
    /// `cuGraphInstantiateWithFlags`.
    pub flags: u64,
}

/// An active capture.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The nodes captured so far.
    pub graph: Graph,
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
    /// The existing graph that receives the nodes, if any.
    pub into: Option<u64>,
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

    /// All work, in order.
    pub fn works(&self) -> Answer<Vec<Work>> {
        Ok(self
            .order()?
            .iter()
            .filter_map(|node| self.nodes.get(node))
            .map(|node| node.work.clone())
            .collect())
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

    /// Adds a node.
    pub fn add_node(&mut self, graph: u64, work: Work, after: &[u64], child: Option<u64>) -> Answer<u64> {
        let handle = self.handle();
        let graph = self.graph(graph)?;
        let mut unique = after.to_vec();
        unique.sort_unstable();
        unique.dedup();
        if unique.len() != after.len() || unique.iter().any(|node| !graph.nodes.contains_key(node)) {
            return Err(Error::INVALID_VALUE);
        }
        graph.nodes.insert(handle, Node { work, after: unique, child });
        Ok(handle)
    }

    /// `cuGraphInstantiate`.
    pub fn instantiate(&mut self, graph: u64, flags: u64) -> Answer<u64> {
        let graph = self.graph(graph)?.clone();
        let order = graph.order()?;
        let steps =
            order.iter().filter_map(|n| graph.nodes.get(n).map(|node| (*n, node.work.clone()))).collect();
        let handle = self.handle();
        self.executables.insert(handle, Executable { steps, flags });
        Ok(handle)
    }

    /// `cuGraphExecUpdate`: the same nodes with other parameters.
    pub fn update_executable(&mut self, executable: u64, graph: u64) -> Answer {
        let graph = self.graph(graph)?.clone();
        let order = graph.order()?;
        let ready = self.executables.get_mut(&executable).ok_or(Error::INVALID_VALUE)?;
        let new: Vec<(u64, Work)> =
            order.iter().filter_map(|n| graph.nodes.get(n).map(|node| (*n, node.work.clone()))).collect();
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
        Ok(())
    }

    /// `cuGraphLaunch`: returns the work to perform in order; empty if the stream is capturing.
    pub fn launch_graph(&mut self, target: Target, executable: u64) -> Answer<Vec<Work>> {
        let steps = self.executables.get(&executable).ok_or(Error::INVALID_VALUE)?.steps.clone();
        let works: Vec<Work> = steps.into_iter().map(|(_, work)| work).collect();
        if self.streams.get(&target.stream).is_some_and(|stream| stream.capture.is_some()) {
            self.unless_captured(target, Work::Child(works))?;
            return Ok(Vec::new());
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
        let handle = self.handle();
        let (graph, tail, into) = match into {
            Some((graph, tail)) => (self.graph(graph)?.clone(), tail, Some(graph)),
            None => (Graph::default(), Vec::new(), None),
        };
        let stream = self.streams.get_mut(&target.stream).ok_or(Error::INVALID_HANDLE)?;
        if stream.capture.is_some() {
            return Err(Error::ILLEGAL_STATE);
        }
        stream.capture = Some(handle);
        let capture = Capture {
            graph,
            origin: target.stream,
            context: target.context,
            tails: BTreeMap::from([(target.stream, tail)]),
            mode,
            invalid: false,
            thread: std::thread::current().id(),
            into,
        };
        self.captures.insert(handle, capture);
        Ok(())
    }

    /// Abandons a capture that can never end, because its stream was destroyed.
    pub fn abandon(&mut self, handle: u64) {
        self.captures.remove(&handle);
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
        let after = std::mem::replace(capture.tails.entry(stream).or_default(), vec![node]);
        capture.graph.nodes.insert(node, Node { work, after, child: None });
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
        self.unless_captured(target, Work::Wait(event)).map(drop)
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
        if capture.invalid {
            return Err(Error::STREAM_CAPTURE_INVALIDATED);
        }
        // The last work of every other stream must be a predecessor of the origin stream's last work.
        let mut reached = BTreeSet::new();
        let mut next = capture.tails.get(&capture.origin).cloned().unwrap_or_default();
        while let Some(node) = next.pop() {
            if reached.insert(node) {
                next.extend(capture.graph.nodes.get(&node).into_iter().flat_map(|node| node.after.clone()));
            }
        }
        if capture.tails.values().flatten().any(|node| !reached.contains(node)) {
            return Err(Error::STREAM_CAPTURE_UNJOINED);
        }
        if let Some(graph) = capture.into {
            *self.graph(graph)? = capture.graph;
            return Ok(graph);
        }
        let graph = self.create_graph()?;
        *self.graph(graph)? = capture.graph;
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_after_what_they_wait_for_and_a_circle_is_refused() {
        let node = |after: &[u64]| Node { work: Work::Empty, after: after.to_vec(), child: None };
        let mut graph = Graph::default();
        graph.nodes.insert(1, node(&[3]));
        graph.nodes.insert(2, node(&[]));
        graph.nodes.insert(3, node(&[2]));
        assert_eq!(graph.order().unwrap(), [2, 3, 1]);
        graph.nodes.insert(2, node(&[1]));
        assert_eq!(graph.order(), Err(Error::INVALID_VALUE));
    }
}
