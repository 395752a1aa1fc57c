//! Stream capture: work of a stream becomes nodes of a graph.

use warpproof_driver::abi::{Answer, Handle};
use warpproof_driver::api::{In, Out};

use super::{context, stream};

api! {
    /// Begins a capture.
    fn cudaStreamBeginCapture | cudaStreamBeginCapture_ptsz => (on: Handle, mode: u32) {
        let on = stream(on);
        context()?;
        cu!(cuStreamBeginCapture_v2(on, mode))
    }
}

api! {
    /// Begins a capture into an existing graph.
    fn cudaStreamBeginCaptureToGraph | cudaStreamBeginCaptureToGraph_ptsz => (on: Handle, graph: Handle, after: In<Handle>, data: In<u64>, count: usize, mode: u32) {
        let on = stream(on);
        context()?;
        cu!(cuStreamBeginCaptureToGraph(on, graph, after, data.cast(), count, mode))
    }
}

api! {
    /// Ends a capture.
    fn cudaStreamEndCapture | cudaStreamEndCapture_ptsz => (on: Handle, graph: Out<Handle>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamEndCapture(on, graph))
    }
}

api! {
    /// Capture status of a stream, and the ID of its capture.
    fn cudaStreamGetCaptureInfo_in12 | cudaStreamGetCaptureInfo_ptsz_in12 => (on: Handle, status: Out<u32>, id: Out<u64>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamGetCaptureInfo(on, status, id))
    }
}

api! {
    /// Capture status of a stream, its graph, and the nodes that later work depends on.
    fn cudaStreamGetCaptureInfo_v2 | cudaStreamGetCaptureInfo_v2_ptsz => (on: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, nodes: Out<*const Handle>, count: Out<usize>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamGetCaptureInfo_v2(on, status, id, graph, nodes, count))
    }
}

api! {
    /// Capture status of a stream, its graph, the nodes that later work depends on, and the data of these edges.
    fn cudaStreamGetCaptureInfo_v3 | cudaStreamGetCaptureInfo_v3_ptsz | cudaStreamGetCaptureInfo_in13 | cudaStreamGetCaptureInfo_ptsz_in13 => (on: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, nodes: Out<*const Handle>, data: Out<*const u64>, count: Out<usize>) {
        let on = stream(on);
        context()?;
        cu!(cuStreamGetCaptureInfo_v3(on, status, id, graph, nodes, data, count))
    }
}

fn depend(on: Handle, nodes: In<Handle>, data: In<u64>, count: usize, flags: u32) -> Answer {
    let on = stream(on);
    context()?;
    cu!(cuStreamUpdateCaptureDependencies_v2(on, nodes, data, count, flags))
}

api! {
    /// Changes the nodes that later captured work depends on.
    fn cudaStreamUpdateCaptureDependencies_in12 | cudaStreamUpdateCaptureDependencies_ptsz_in12 => (on: Handle, nodes: In<Handle>, count: usize, flags: u32) {
        depend(on, nodes, In::none(), count, flags)
    }
}

api! {
    /// Changes the nodes that later captured work depends on, with data of the edges.
    fn cudaStreamUpdateCaptureDependencies_v2 | cudaStreamUpdateCaptureDependencies_v2_ptsz | cudaStreamUpdateCaptureDependencies_in13 | cudaStreamUpdateCaptureDependencies_ptsz_in13 => (on: Handle, nodes: In<Handle>, data: In<u64>, count: usize, flags: u32) {
        depend(on, nodes, data, count, flags)
    }
}
