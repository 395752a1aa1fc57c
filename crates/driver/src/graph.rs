//! Graphs: made by hand or captured from streams, made ready, launched.

use std::collections::{BTreeMap, BTreeSet};

use crate::abi::{Answer, Error};
use crate::driver::Driver;
use crate::stream::Target;
use crate::work::{Calls, Work};

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub work: Work,
    /// The nodes that come before it.
    pub after: Vec<u64>,
    /// The graph that a child node was made of.
    pub child: Option<u64>,
}

/// A graph: nodes in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The nodes.
    pub nodes: BTreeMap<u64, Node>,
}

/// A graph made ready: what it does, in an order that its edges allow.
#[derive(Clone, Debug)]
pub struct Executable {
    /// Nodes of the graph it was made of, with what they do now.
    pub steps: Vec<(u64, Work)>,
    /// `cuGraphInstantiateWithFlags`.
    pub flags: u64,
}

/// A capture under way.
#[derive(Clone, Debug)]
pub struct Capture {
    /// What was captured so far.
    pub graph: Graph,
    /// The stream it began in.
    pub origin: u64,
    /// The context.
    pub context: u64,
    /// The last nodes of each stream that takes part.
    pub tails: BTreeMap<u64, Vec<u64>>,
    /// `CUstreamCaptureMode`.
    pub mode: u32,
    /// Whether something was done that cannot be captured.
    pub invalid: bool,
    /// The thread it began in.
    pub thread: std::thread::ThreadId,
    /// The graph that nodes are added to, if one was there before.
    pub into: Option<u64>,
}

impl Graph {
    /// Nodes in an order that the edges allow: as they were added, those first that nothing holds back. A circle is an error.
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

    /// Everything it does, in order.
    pub fn works(&self) -> Answer<Vec<Work>> {
        Ok(self
            .order()?
            .iter()
            .filter_map(|node| self.nodes.get(node))
            .map(|node| node.work.clone())
            .collect())
    }
}

/// Graphs within graphs, as one list.
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

    /// The graph that a node is in.
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

    /// `cuGraphExecUpdate`: the same nodes with other arguments.
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
        // The old nodes are the ones that later updates name.
        for ((_, old), (_, work)) in ready.steps.iter_mut().zip(new) {
            *old = work;
        }
        Ok(())
    }

    /// `cuGraphLaunch`: what is to be done now, one thing after another; nothing where the stream is captured.
    pub fn launch_graph(&mut self, target: Target, executable: u64) -> Answer<Vec<Work>> {
        let steps = self.executables.get(&executable).ok_or(Error::INVALID_VALUE)?.steps.clone();
        let works: Vec<Work> = steps.into_iter().map(|(_, work)| work).collect();
        if self.streams.get(&target.stream).is_some_and(|stream| stream.capture.is_some()) {
            self.submit(target, Work::Child(works), &mut Calls::new())?;
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

    /// A capture that can never end, because what it began in is gone.
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

    /// The capture of a stream that the legacy default stream waits for, which is every one that is not made otherwise.
    pub fn captured_blocking(&self, context: u64) -> Option<u64> {
        let blocking = |stream: &&crate::stream::Stream| stream.context == context && stream.flags & 1 == 0;
        self.streams.values().filter(blocking).find_map(|stream| stream.capture)
    }

    /// Something was done that cannot be captured.
    pub fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.invalid = true;
        }
    }

    /// Work in a stream that is captured becomes a node; events join streams.
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

    /// Work becomes a node of what is captured, events too.
    pub fn capture_node(&mut self, handle: u64, stream: u64, work: Work) -> Answer {
        let node = self.handle();
        let capture = self.captures.get_mut(&handle).filter(|capture| !capture.invalid);
        let capture = capture.ok_or(Error::STREAM_CAPTURE_INVALIDATED)?;
        let after = std::mem::replace(capture.tails.entry(stream).or_default(), vec![node]);
        capture.graph.nodes.insert(node, Node { work, after, child: None });
        Ok(())
    }

    /// A stream waits for an event: in a capture it takes part from then on.
    pub fn wait(&mut self, target: Target, event: u64, calls: &mut Calls) -> Answer {
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
        self.submit(target, Work::Wait(event), calls)
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
        // What other streams did last must come before where the first stream ended.
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
