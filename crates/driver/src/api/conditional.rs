//! Conditional nodes, and numbers of graphs and nodes.

use super::{Out, driver, handle, number};
use crate::abi::{Answer, Error, Handle};
use crate::graph::id;

api! {
    /// Creates the variable of a conditional node. Flag 1 assigns the default at each launch.
    fn cuGraphConditionalHandleCreate => (variable: Out<u64>, graph: Handle, context: Handle, default: u32, flags: u32) {
        let mut driver = driver();
        if variable.is_null() || flags > 1 {
            return Err(Error::INVALID_VALUE);
        }
        if !context.is_null() {
            driver.context(number(context))?;
        }
        let made = driver.create_condition(number(graph), (flags == 1).then_some(default))?;
        variable.put(made)
    }
}

/// The graph that contains a node.
fn containing(node: Handle) -> Answer<u64> {
    let driver = driver();
    driver.ready()?;
    let found = driver.graphs.iter().find(|(_, graph)| graph.nodes.contains_key(&number(node)));
    found.map(|(graph, _)| *graph).ok_or(Error::INVALID_VALUE)
}

api! {
    /// The graph that contains a node.
    fn cuGraphNodeGetContainingGraph => (node: Handle, graph: Out<Handle>) {
        graph.put(handle(containing(node)?))
    }
}

api! {
    /// The number of a node, as in the output of `cuGraphDebugDotPrint`.
    fn cuGraphNodeGetLocalId => (node: Handle, found: Out<u32>) {
        containing(node)?;
        found.put(id(number(node)))
    }
}

api! {
    /// The number of a node for tools.
    fn cuGraphNodeGetToolsId => (node: Handle, found: Out<u64>) {
        containing(node)?;
        found.put(u64::from(id(number(node))))
    }
}

api! {
    /// The number of a graph, as in the output of `cuGraphDebugDotPrint`.
    fn cuGraphGetId => (graph: Handle, found: Out<u32>) {
        driver().graph(number(graph))?;
        found.put(id(number(graph)))
    }
}

api! {
    /// The number of an executable graph.
    fn cuGraphExecGetId => (executable: Handle, found: Out<u32>) {
        let driver = driver();
        driver.ready()?;
        driver.executables.get(&number(executable)).ok_or(Error::INVALID_VALUE)?;
        found.put(id(number(executable)))
    }
}
