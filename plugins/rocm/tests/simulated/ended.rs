//! Streams that are destroyed while their work runs: the driver's own goes once the work is over.

use crossdock_sdk::abi::Status;
use crossdock_sdk::plugin::{HostEvents as _, Plugin as _, Streams as _};

use crate::hooks::{LIMIT_NS, call, open, runtime};
use crate::{POLICIES, over};

#[test]
fn a_busy_stream_is_destroyed_once_its_work_is_over_and_a_retire_waits_for_it() {
    let name = "ended::a_busy_stream_is_destroyed_once_its_work_is_over_and_a_retire_waits_for_it";
    if !over(name, &POLICIES) {
        return;
    }
    let (plugin, hip) = (open(), runtime());
    let leaks = || call!(hip.crossdock_sim_leaks() -> i64);
    let [busy, idle] = [(); 2].map(|()| plugin.stream_create(0).unwrap());
    let event = plugin.event_create_host(0).unwrap();
    let before = leaks();
    plugin.stream_wait_event(busy, event).unwrap();
    plugin.stream_destroy(busy).unwrap();
    assert_eq!(leaks(), before, "its work runs");
    plugin.stream_destroy(idle).unwrap();
    assert_eq!(leaks(), before - 1, "nothing runs there");
    let late = plugin.retire(1_000_000).unwrap_err();
    assert_eq!(late.status(), Status::TIMEOUT);
    plugin.event_complete(event, Status::OK).unwrap();
    plugin.retire(LIMIT_NS).unwrap();
    assert_eq!(leaks(), before - 2);
    plugin.event_destroy(event).unwrap();
}

#[test]
fn a_close_waits_for_streams_that_were_destroyed_while_their_work_ran() {
    let name = "ended::a_close_waits_for_streams_that_were_destroyed_while_their_work_ran";
    if !over(name, &POLICIES) {
        return;
    }
    let (plugin, hip) = (open(), runtime());
    let leaks = || call!(hip.crossdock_sim_leaks() -> i64);
    let (stream, event) = (plugin.stream_create(0), plugin.event_create_host(0));
    let (stream, event) = (stream.unwrap(), event.unwrap());
    plugin.stream_wait_event(stream, event).unwrap();
    plugin.stream_destroy(stream).unwrap();
    // This fails the event, behind which the work goes on.
    drop(plugin);
    assert_eq!(leaks(), 0);
}
