//! Links between the devices of one plugin: what is proved before a copy goes over one, and what is not trusted.
//!
//! Each test is a process of its own: the plugin reads its choices from the environment, and what is known of a
//! link holds for as long as the plugin is open.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::sync::Barrier;
use std::thread;

use crossdock::{Error, Event, Route, RouteChoice, RouteKind, Stream, Tensor};
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{traced, with_environment};
use crossdock_sdk::abi::{MemoryKind, Status};
use crossdock_sdk::dlpack::{Dtype, Layout};

const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);

/// Runs a test again over devices with these choices. `true` there.
fn with(test: &str, sim: &str) -> bool {
    with_environment(test, &[("CROSSDOCK_ASYNCHRONOUS", sim)])
}

fn layout() -> Layout {
    Layout::compact(Dtype::UINT32, &[20_000]).unwrap()
}

fn numbers(seed: u32) -> Vec<u8> {
    let numbers = (0..20_000_u32).map(|at| at.wrapping_add(seed).wrapping_mul(2_654_435_761));
    numbers.flat_map(u32::to_le_bytes).collect()
}

/// A tensor on a device, with its bytes.
fn source(rig: &Simulated, device: &str, seed: u32) -> (Tensor, Vec<u8>) {
    let bytes = numbers(seed);
    let tensor = Tensor::from_bytes(&rig.device(device), &layout(), &bytes).unwrap();
    (tensor, bytes)
}

/// Moves a tensor of a device to the other, which then has its values, and tells of the route.
fn moved(rig: &Simulated, [from, to]: [&str; 2], choice: RouteChoice) -> Route {
    let (tensor, bytes) = source(rig, from, 7);
    let (moved, route) = tensor.to(&rig.device(to), choice).unwrap();
    assert!(moved.read().unwrap() == bytes, "{route}");
    route
}

const THERE: [&str; 2] = ["vpi:0", "vpi:1"];
const BACK: [&str; 2] = ["vpi:1", "vpi:0"];

#[test]
fn a_move_without_a_stream_proves_the_link_for_those_on_streams_too() {
    let name = "a_move_without_a_stream_proves_the_link_for_those_on_streams_too";
    if !with(name, "devices=3") {
        return;
    }
    let rig = Simulated::new();
    let [one, two] = THERE.map(|name| rig.device(name));
    let stream = Stream::new(&one).unwrap();
    let (tensor, bytes) = source(&rig, "vpi:0", 1);
    let (early, route) = tensor.to_on(&two, DIRECT, &stream).unwrap();
    assert!(
        route.to_string().contains("without the peer link"),
        "{route}"
    );
    assert_eq!(rig.control.links(), 0);
    let route = moved(&rig, BACK, RouteChoice::Best);
    assert_eq!(route.kind, RouteKind::Direct);
    assert!(route.to_string().contains("which was proved"), "{route}");
    // Each way, and the third device has nothing to do with it.
    assert_eq!(rig.control.links(), 2);
    let (late, route) = tensor.to_on(&two, DIRECT, &stream).unwrap();
    assert!(route.to_string().contains("which was proved"), "{route}");
    let explained = tensor.explain_on(&two, DIRECT, &stream).unwrap();
    assert_eq!(explained, route);
    assert!(early.read().unwrap() == bytes && late.read().unwrap() == bytes);
    // Into memory that is there.
    early.fill(&[0; 4], Some(&stream)).unwrap();
    early.copy_from(&tensor, Some(&stream)).unwrap();
    assert!(early.read().unwrap() == bytes);
    drop((tensor, early, late, stream));
    rig.assert_clean();
}

#[test]
fn a_link_is_enabled_once_and_only_for_bytes_that_go_over_it() {
    let name = "a_link_is_enabled_once_and_only_for_bytes_that_go_over_it";
    if !with(name, "") {
        return;
    }
    let rig = Simulated::new();
    let folder = tempfile::tempdir().unwrap();
    let two = rig.device("vpi:1");
    let enabled = |work: &dyn Fn()| {
        let ((), hooks) = traced(folder.path(), work);
        let of_links = hooks.iter().filter(|hook| hook.starts_with("peer_"));
        of_links.cloned().collect::<Vec<_>>()
    };
    let unused = enabled(&|| {
        let none = Layout::compact(Dtype::UINT32, &[0]).unwrap();
        let none = Tensor::empty(&rig.device("vpi:0"), &none).unwrap();
        none.to(&two, DIRECT).unwrap();
        moved(&rig, THERE, RouteChoice::Only(RouteKind::Staged));
        moved(&rig, ["vpi:1", "vpi:1"], RouteChoice::Copy);
        moved(&rig, ["vpi:1", "cpu:0"], DIRECT);
        // The host's memory is reached without a link.
        let pinned = Tensor::empty_of(&rig.device("vpi:0"), &layout(), MemoryKind::PINNED).unwrap();
        pinned.write(&numbers(3)).unwrap();
        let (moved, _) = pinned.to(&two, DIRECT).unwrap();
        assert!(moved.read().unwrap() == numbers(3));
    });
    assert_eq!(unused, [""; 0]);
    let first = enabled(&|| drop(moved(&rig, THERE, DIRECT)));
    let [can, enable] = ["peer_can_access", "peer_enable"];
    assert_eq!(first, [can, can, enable, enable]);
    let later = enabled(&|| {
        moved(&rig, THERE, DIRECT);
        moved(&rig, BACK, DIRECT);
        let (tensor, _) = source(&rig, "vpi:0", 5);
        let explained = tensor.explain(&two, RouteChoice::Best).to_string();
        assert!(explained.contains("which was proved"), "{explained}");
    });
    assert_eq!(later, [""; 0]);
    rig.assert_clean();
}

#[test]
fn an_explanation_without_a_stream_proves_the_link() {
    if !with("an_explanation_without_a_stream_proves_the_link", "") {
        return;
    }
    let rig = Simulated::new();
    let (tensor, _) = source(&rig, "vpi:0", 1);
    let two = rig.device("vpi:1");
    let explained = tensor.explain(&two, RouteChoice::Best);
    assert!(
        explained.to_string().contains("which was proved"),
        "{explained}"
    );
    let (_, route) = tensor.to(&two, RouteChoice::Best).unwrap();
    assert_eq!(route, explained);
}

#[test]
fn a_link_that_drops_what_goes_over_it_is_found_before_a_program_uses_it() {
    let name = "a_link_that_drops_what_goes_over_it_is_found_before_a_program_uses_it";
    if with(name, "peer=drops") {
        is_gone_around();
    }
}

#[test]
fn a_link_that_writes_to_a_mirror_is_found_before_a_program_uses_it() {
    let name = "a_link_that_writes_to_a_mirror_is_found_before_a_program_uses_it";
    if with(name, "peer=mirrors") {
        is_gone_around();
    }
}

/// The link is not trusted, and the plugin copies without it.
fn is_gone_around() {
    let rig = Simulated::new();
    for ends in [THERE, BACK, THERE] {
        let route = moved(&rig, ends, RouteChoice::Best).to_string();
        // The plugin's own way was proved once the link was disabled.
        assert!(route.contains("of 65536 bytes from its device"), "{route}");
        assert!(
            route.contains("direct") && route.contains("without it all did"),
            "{route}"
        );
        assert_eq!(rig.control.links(), 0);
    }
    for device in THERE {
        let stream = Stream::new(&rig.device(device)).unwrap();
        let (tensor, bytes) = source(&rig, "vpi:0", 9);
        let (moved, route) = tensor.to_on(&rig.device("vpi:1"), DIRECT, &stream).unwrap();
        assert!(moved.read().unwrap() == bytes, "{route}");
    }
    rig.assert_clean();
}

#[test]
fn where_nothing_arrives_from_a_peer_copies_go_through_host_memory() {
    let name = "where_nothing_arrives_from_a_peer_copies_go_through_host_memory";
    if !with(name, "peer=all_drop") {
        return;
    }
    let rig = Simulated::new();
    let route = moved(&rig, THERE, RouteChoice::Best);
    assert_eq!(route.kind, RouteKind::Staged, "{route}");
    assert!(
        route.to_string().contains("nor did they without it"),
        "{route}"
    );
    let (tensor, bytes) = source(&rig, "vpi:1", 2);
    let refused = tensor.to(&rig.device("vpi:0"), DIRECT).unwrap_err();
    assert!(matches!(&refused, Error::Refused { reasons, .. } if reasons.len() == 1));
    assert!(
        refused.why().contains("is not trusted"),
        "{}",
        refused.why()
    );
    let there = Tensor::empty(&rig.device("vpi:0"), &layout()).unwrap();
    let stream = Stream::new(&rig.device("vpi:0")).unwrap();
    there.copy_from(&tensor, Some(&stream)).unwrap();
    assert!(there.read().unwrap() == bytes);
    drop((tensor, there, stream));
    rig.assert_clean();
}

#[test]
fn devices_without_a_link_are_told_so_and_copies_are_the_plugins_own() {
    let name = "devices_without_a_link_are_told_so_and_copies_are_the_plugins_own";
    if !with(name, "peer=off") {
        return;
    }
    let rig = Simulated::new();
    let route = moved(&rig, THERE, RouteChoice::Best);
    assert_eq!(route.kind, RouteKind::Direct);
    assert!(
        route
            .to_string()
            .contains("there is no peer link of `vpi:0` and `vpi:1`"),
        "{route}"
    );
}

#[test]
fn a_move_on_a_stream_does_not_stand_behind_held_work_whoever_proves_the_link() {
    let name = "a_move_on_a_stream_does_not_stand_behind_held_work_whoever_proves_the_link";
    // All streams of a device share a queue, behind whose waits a proof stands too.
    if !with(name, "queues=1") {
        return;
    }
    let rig = Simulated::new();
    let [one, two] = THERE.map(|name| rig.device(name));
    let (tensor, bytes) = source(&rig, "vpi:0", 4);
    let (stream, held) = (Stream::new(&one).unwrap(), Event::host(&one).unwrap());
    stream.wait(&held).unwrap();
    let (early, _) = tensor.to_on(&two, DIRECT, &stream).unwrap();
    let pending = rig.control.pending();
    thread::scope(|scope| {
        let other = scope.spawn(|| tensor.to(&two, DIRECT).unwrap());
        // What the proof sends stands behind the wait, and the first of these waits for its end.
        rig.wait_for_pending(pending + 1);
        for _ in 0..3 {
            let (late, route) = tensor.to_on(&two, DIRECT, &stream).unwrap();
            assert!(!stream.is_idle().unwrap(), "{route}");
            drop(late);
        }
        held.complete(Status::OK).unwrap();
        let (moved, route) = other.join().unwrap();
        assert!(
            route.to_string().contains("without the peer link"),
            "{route}"
        );
        assert!(moved.read().unwrap() == bytes);
    });
    assert!(early.read().unwrap() == bytes);
    // Another move does not try again so soon; who asks for an explanation finds it out.
    let route = moved(&rig, THERE, DIRECT).to_string();
    assert!(route.contains("without the peer link"), "{route}");
    let explained = tensor.explain(&two, DIRECT).to_string();
    assert!(explained.contains("which was proved"), "{explained}");
    drop((tensor, early, stream, held));
    rig.assert_clean();
}

#[test]
fn threads_that_move_at_once_prove_the_link_once() {
    if !with(
        "threads_that_move_at_once_prove_the_link_once",
        "peer=drops;policy=threads",
    ) {
        return;
    }
    let rig = Simulated::new();
    let folder = tempfile::tempdir().unwrap();
    let begun = Barrier::new(4);
    let move_there = || {
        begun.wait();
        for ends in [THERE, BACK] {
            let route = moved(&rig, ends, DIRECT).to_string();
            assert!(route.contains("without it all did"), "{route}");
        }
    };
    let ((), hooks) = traced(folder.path(), || {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move_there);
            }
        });
    });
    assert_eq!(
        hooks.iter().filter(|hook| *hook == "peer_enable").count(),
        2
    );
    assert_eq!(rig.control.links(), 0);
    rig.assert_clean();
}

/// The route of a first and of a second move by a plugin one of whose hooks fails the first time.
fn routes_with(faults: &str, sim: &str, test: &str) -> Option<[Route; 2]> {
    let variables = [("CROSSDOCK_FAULT", faults), ("CROSSDOCK_ASYNCHRONOUS", sim)];
    with_environment(test, &variables).then(|| {
        let rig = Simulated::new();
        let routes = [(); 2].map(|()| moved(&rig, THERE, RouteChoice::Best));
        let links = rig.control.links();
        assert_eq!(links, if sim.is_empty() { 2 } else { 0 });
        routes
    })
}

#[test]
fn a_question_that_failed_is_asked_again() {
    let test = "a_question_that_failed_is_asked_again";
    let fault = "asynchronous.peer_can_access:2=VENDOR";
    if let Some([first, second]) = routes_with(fault, "", test) {
        assert!(
            first.to_string().contains("without the peer link"),
            "{first}"
        );
        assert!(second.to_string().contains("which was proved"), "{second}");
        assert_eq!([first.kind, second.kind], [RouteKind::Direct; 2]);
    }
}

#[test]
fn a_link_that_failed_to_be_enabled_is_tried_again() {
    let test = "a_link_that_failed_to_be_enabled_is_tried_again";
    let fault = "asynchronous.peer_enable:2=VENDOR";
    if let Some([first, second]) = routes_with(fault, "", test) {
        assert!(
            first.to_string().contains("without the peer link"),
            "{first}"
        );
        assert!(second.to_string().contains("which was proved"), "{second}");
    }
}

#[test]
fn a_link_that_lies_and_stays_enabled_is_gone_around_until_it_is_disabled() {
    let test = "a_link_that_lies_and_stays_enabled_is_gone_around_until_it_is_disabled";
    let fault = "asynchronous.peer_disable:1=CONFLICT";
    if let Some([first, second]) = routes_with(fault, "peer=drops", test) {
        assert_eq!(first.kind, RouteKind::Staged, "{first}");
        assert!(first.to_string().contains("is not known"), "{first}");
        assert_eq!(second.kind, RouteKind::Direct, "{second}");
        assert!(
            second.to_string().contains("without it all did"),
            "{second}"
        );
    }
}
