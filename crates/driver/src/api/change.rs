//! Changes of nodes: their events, attributes of launches, child graphs, and nodes that do not run.

use super::graph::{replace, reset};
use super::{In, Out, driver, number};
use crate::abi::{Answer, Error, Handle};
use crate::cluster::portable_mode;
use crate::work::{LaunchCall, Work};

/// The work of recording an event that exists.
fn record(event: Handle) -> Answer<Work> {
    driver().event(number(event))?;
    Ok(Work::Record(number(event)))
}

/// The work of waiting for an event that exists.
fn wait(event: Handle) -> Answer<Work> {
    driver().event(number(event))?;
    Ok(Work::Wait(number(event)))
}

api! {
    /// Replaces the event that a node records.
    fn cuGraphEventRecordNodeSetEvent => (node: Handle, event: Handle) {
        reset(node, record(event)?)
    }
}

api! {
    /// Replaces the event that a node waits for.
    fn cuGraphEventWaitNodeSetEvent => (node: Handle, event: Handle) {
        reset(node, wait(event)?)
    }
}

api! {
    /// Replaces the event that a node of an executable graph records.
    fn cuGraphExecEventRecordNodeSetEvent => (executable: Handle, node: Handle, event: Handle) {
        replace(executable, node, record(event)?)
    }
}

api! {
    /// Replaces the event that a node of an executable graph waits for.
    fn cuGraphExecEventWaitNodeSetEvent => (executable: Handle, node: Handle, event: Handle) {
        replace(executable, node, wait(event)?)
    }
}

/// Whether two nodes have the same kind, and child graphs the same nodes.
fn alike(a: &Work, b: &Work) -> bool {
    match (a, b) {
        (Work::Child(a), Work::Child(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

api! {
    /// Replaces the parameters of the nodes of a child graph in an executable graph.
    fn cuGraphExecChildGraphNodeSetParams => (executable: Handle, node: Handle, child: Handle) {
        let work = driver().child_work(number(child))?;
        let same = {
            let driver = driver();
            let ready = driver.executables.get(&number(executable)).ok_or(Error::INVALID_VALUE)?;
            ready.steps.iter().any(|(known, old)| *known == number(node) && alike(old, &work))
        };
        if same { replace(executable, node, work) } else { Err(Error::INVALID_VALUE) }
    }
}

api! {
    /// Enables or disables a node of an executable graph: a launch, a copy or a memset.
    fn cuGraphNodeSetEnabled => (executable: Handle, node: Handle, enabled: u32) {
        let mut driver = driver();
        driver.ready()?;
        let ready = driver.executables.get_mut(&number(executable)).ok_or(Error::INVALID_VALUE)?;
        ready.known(number(node))?;
        if enabled == 0 {
            ready.disabled.insert(number(node));
        } else {
            ready.disabled.remove(&number(node));
        }
        Ok(())
    }
}

api! {
    /// Whether a node of an executable graph runs.
    fn cuGraphNodeGetEnabled => (executable: Handle, node: Handle, enabled: Out<u32>) {
        let driver = driver();
        driver.ready()?;
        let ready = driver.executables.get(&number(executable)).ok_or(Error::INVALID_VALUE)?;
        ready.known(number(node))?;
        enabled.put(u32::from(!ready.disabled.contains(&number(node))))
    }
}

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`, `…_CLUSTER_DIMENSION` and `…_PROGRAMMATIC_STREAM_SERIALIZATION`.
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const SERIALIZATION: u32 = 6;
/// `CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE`.
const PORTABLE: u32 = 17;

/// Changes the launch of a node.
fn launch<T>(node: Handle, use_it: impl FnOnce(&mut LaunchCall) -> T) -> Answer<T> {
    let mut driver = driver();
    match &mut driver.node(number(node))?.work {
        Work::Launch(call) => Ok(use_it(call)),
        _ => Err(Error::INVALID_VALUE),
    }
}

api! {
    /// Sets an attribute of a launch: cooperative, the blocks of a cluster, or programmatic serialization; others are ignored.
    fn cuGraphKernelNodeSetAttribute => (node: Handle, attribute: u32, value: In<[u32; 16]>) {
        let value = value.get()?;
        let nonportable = if attribute == PORTABLE { portable_mode(value[0])? } else { None };
        launch(node, |call| {
            let [x, y, z, ..] = value;
            match attribute {
                PORTABLE => call.nonportable = nonportable,
                COOPERATIVE => call.cooperative = x != 0,
                SERIALIZATION => call.programmatic.serialization = x != 0,
                CLUSTER => call.cluster = Some([x, y, z]).filter(|cluster| *cluster != [0; 3]),
                _ => {}
            }
        })
    }
}

api! {
    /// An attribute of a launch. Those that are ignored cannot be read.
    fn cuGraphKernelNodeGetAttribute => (node: Handle, attribute: u32, value: Out<[u32; 16]>) {
        let (cooperative, cluster, nonportable, programmatic) =
            launch(node, |call| (call.cooperative, call.cluster, call.nonportable, call.programmatic))?;
        let mut found = [0; 16];
        match attribute {
            COOPERATIVE => found[0] = u32::from(cooperative),
            PORTABLE => found[0] = nonportable.map_or(0, |allowed| 1 + u32::from(allowed)),
            SERIALIZATION => found[0] = u32::from(programmatic.serialization),
            CLUSTER => found[..3].copy_from_slice(&cluster.unwrap_or([1; 3])),
            _ => {
                driver().report.unsupported(&format!("reading attribute {attribute} of a graph's launch"));
                return Err(Error::NOT_SUPPORTED);
            }
        }
        value.put(found)
    }
}

api! {
    /// Copies the attributes of a launch.
    fn cuGraphKernelNodeCopyAttributes => (to: Handle, from: Handle) {
        let attributes =
            launch(from, |call| (call.cooperative, call.cluster, call.nonportable, call.programmatic))?;
        launch(to, |call| {
            (call.cooperative, call.cluster, call.nonportable, call.programmatic) = attributes;
        })
    }
}
