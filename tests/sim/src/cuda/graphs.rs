//! Stream capture, and the graphs that come of it: their nodes are counted, and none can be launched.
#![expect(unsafe_code, reason = "the driver's functions are exported by name")]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::captures::{Mode, exchange_mode};
use super::codes::Code;
use super::entry::{Answer, Call, Out, entries};
use super::objects::objects;

/// How many nodes each graph has, by its handle.
static GRAPHS: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

fn graphs() -> MutexGuard<'static, BTreeMap<u64, usize>> {
    GRAPHS.lock().unwrap_or_else(PoisonError::into_inner)
}

entries! {
    fn cuStreamBeginCapture(stream: u64) = cuStreamBeginCapture_ptsz |call| {
        begin(call, stream, Mode::Global)
    }

    fn cuStreamBeginCapture_v2(stream: u64, mode: c_int) = cuStreamBeginCapture_v2_ptsz |call| {
        begin(call, stream, Mode::of(mode)?)
    }

    fn cuStreamEndCapture(stream: u64, out: Out<u64>) = cuStreamEndCapture_ptsz as end |call| {
        out.set(0)?;
        let mut objects = objects();
        let key = objects.resolve(call, stream)?;
        let nodes = objects.captures.end(key)?;
        let handle = objects.handle();
        graphs().insert(handle, nodes);
        out.set(handle)
    }

    fn cuStreamIsCapturing(stream: u64, status: Out<c_int>) = cuStreamIsCapturing_ptsz as is_capturing |call| {
        status.set(info(call, stream)?.0)
    }

    fn cuStreamGetCaptureInfo(stream: u64, status: Out<c_int>, id: Out<u64>) = cuStreamGetCaptureInfo_ptsz |call| {
        tell(call, stream, status, id)
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: u64,
        status: Out<c_int>,
        id: Out<u64>,
        graph: Out<u64>,
        dependencies: Out<*const c_void>,
        count: Out<usize>,
    ) = cuStreamGetCaptureInfo_v2_ptsz |call| {
        no_dependencies(graph, dependencies, count);
        tell(call, stream, status, id)
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: u64,
        status: Out<c_int>,
        id: Out<u64>,
        graph: Out<u64>,
        dependencies: Out<*const c_void>,
        edges: Out<*const c_void>,
        count: Out<usize>,
    ) = cuStreamGetCaptureInfo_v3_ptsz |call| {
        no_dependencies(graph, dependencies, count);
        edges.offer(std::ptr::null());
        tell(call, stream, status, id)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: Out<c_int>) as exchange |_call| {
        let asked = Mode::of(mode.read()?)?;
        mode.set(exchange_mode(asked).number())
    }

    fn cuGraphGetNodes(graph: u64, nodes: Out<u64>, count: Out<usize>) as nodes |_call| {
        let had = *graphs().get(&graph).ok_or(Code::INVALID_VALUE)?;
        if !nodes.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        count.set(had)
    }

    fn cuGraphDestroy(graph: u64) as destroy |_call| {
        graphs().remove(&graph).map(drop).ok_or(Code::INVALID_VALUE)
    }
}

pub(crate) fn begin(call: &Call, stream: u64, mode: Mode) -> Answer {
    let mut objects = objects();
    let key = objects.resolve(call, stream)?;
    objects.stream(call, key)?;
    if objects.is_legacy(key) {
        return Err(Code::CAPTURE_UNSUPPORTED);
    }
    objects.captures.begin(key, mode)
}

/// Status and id; a legacy default stream has none to tell while one that it waits for captures.
fn info(call: &Call, stream: u64) -> Answer<(c_int, u64)> {
    let mut objects = objects();
    let key = objects.resolve(call, stream)?;
    let (_, context) = objects.stream(call, key)?;
    if objects.is_legacy(key) {
        let blocking = objects.blocking(context);
        if objects.captures.is_one_in(&blocking) {
            return Err(Code::CAPTURE_IMPLICIT);
        }
    }
    Ok(objects.captures.status(key))
}

pub(crate) fn tell(call: &Call, stream: u64, status: Out<c_int>, id: Out<u64>) -> Answer {
    let (found, capture) = info(call, stream)?;
    id.offer(capture);
    status.set(found)
}

/// The graph under way is nobody's to look at here.
fn no_dependencies(graph: Out<u64>, dependencies: Out<*const c_void>, count: Out<usize>) {
    graph.offer(0);
    dependencies.offer(std::ptr::null());
    count.offer(0);
}
