//! Children of a fork that happens amid the work of another thread: nothing waits for a lock that only
//! that thread would give back.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]
#![expect(unsafe_code, reason = "forks the process")]

use std::sync::atomic::{AtomicBool, Ordering};

use crossdock::{CostCache, Device, Error, Event, RouteChoice, Runtime, Stream, Tensor};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Dtype, Layout};

const CHILDREN: u32 = 200;
const PATIENCE_SECONDS: u32 = 10;

fn cpu() -> Device {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.open().unwrap();
    runtime.device("cpu:0".parse().unwrap()).unwrap()
}

/// Calls `in_child` in children that are forked off while another thread does `work` all the time. It
/// is to say `FORKED`.
fn children_amid(work: impl Fn() + Sync, in_child: impl Fn() -> Option<Status>) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                work();
            }
        });
        let mut ends = (0..CHILDREN).map(|_| end_of_child(&in_child));
        let failed = ends.find(|status| *status != 0);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(failed, None, "14 is a child that hangs");
    });
}

/// How a child ends: 0 where it was told `FORKED`, 14 where it hung.
fn end_of_child(in_child: impl Fn() -> Option<Status>) -> libc::c_int {
    // SAFETY: the child calls what is allowed in one, and leaves without running anything of others.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it ends this process if it hangs.
        unsafe { libc::alarm(PATIENCE_SECONDS) };
        let was_told = in_child() == Some(Status::FORKED);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!was_told)) };
    }
    let mut status = 0;
    // SAFETY: waits for a child of this process.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    status
}

#[test]
fn a_child_waits_for_no_turn_on_a_stream() {
    let device = cpu();
    let (stream, event) = (Stream::new(&device).unwrap(), Event::host(&device).unwrap());
    children_amid(
        || drop(stream.record().unwrap()),
        || stream.wait(&event).unwrap_err().status(),
    );
}

#[test]
fn a_child_waits_for_nobody_who_notes_work_on_a_tensor() {
    let device = cpu();
    let stream = Stream::new(&device).unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let tensor = Tensor::from_bytes(&device, &layout, &[1; 64]).unwrap();
    let host_event = Event::host(&device).unwrap();
    stream.wait(&host_event).unwrap();
    tensor.written_on(&stream).unwrap();
    children_amid(
        || tensor.used_on(&stream).unwrap(),
        || {
            let noted = tensor.used_on(&stream).unwrap_err().status();
            noted.and(tensor.export().map(drop).unwrap_err().status())
        },
    );
    host_event.complete(Status::OK).unwrap();
}

/// The first use that was not told `FORKED`.
fn untold(uses: &[(&str, Option<Error>)]) -> Option<String> {
    let is_told = |error: &Error| error.status() == Some(Status::FORKED);
    let is_untold = |answer: &Option<Error>| !answer.as_ref().is_some_and(is_told);
    let (what, answer) = uses.iter().find(|(_, answer)| is_untold(answer))?;
    Some(format!("{what}: {answer:?}"))
}

#[test]
fn a_child_is_told_so_by_each_use_of_an_inherited_stream_also_where_there_is_nothing_to_do() {
    let device = cpu();
    let stream = Stream::new(&device).unwrap();
    let done = stream.record().unwrap();
    done.synchronize(None).unwrap();
    let pending = Event::host(&device).unwrap();
    let layout = |extent| Layout::compact(Dtype::UINT8, &[extent]).unwrap();
    let tensor = Tensor::from_bytes(&device, &layout(64), &[1; 64]).unwrap();
    let empty = Tensor::empty(&device, &layout(0)).unwrap();
    let status = end_of_child(|| {
        let own = cpu();
        let moved = |to| tensor.to_on(to, RouteChoice::Best, &stream).err();
        let uses = [
            ("wait", stream.wait(&done).err()),
            ("record", stream.record().err()),
            ("synchronize", stream.synchronize(None).err()),
            ("is_idle", stream.is_idle().err()),
            ("native_handle", stream.native_handle().err()),
            ("wait_to_read", tensor.wait_to_read(&stream).err()),
            ("wait_to_write", tensor.wait_to_write(&stream).err()),
            ("wait_to_export", tensor.wait_to_export(&stream).err()),
            ("export_on", tensor.export_on(&stream).err()),
            ("used_on", tensor.used_on(&stream).err()),
            ("written_on", tensor.written_on(&stream).err()),
            ("ready_on", tensor.ready_on(&stream).err()),
            ("to its own device", moved(tensor.device())),
            ("to the child's device", moved(&own)),
            ("copy", tensor.copy_from(&tensor, Some(&stream)).err()),
            (
                "a wait on the child's stream",
                Stream::new(&own).unwrap().wait(&pending).err(),
            ),
            ("fill", empty.fill(&[1], Some(&stream)).err()),
        ];
        match untold(&uses) {
            None => Some(Status::FORKED),
            Some(text) => {
                crossdock_e2e::report(&text);
                None
            }
        }
    });
    assert_eq!(status, 0, "a use was not told");
}
