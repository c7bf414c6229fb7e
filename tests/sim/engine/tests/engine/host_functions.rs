//! Host functions and the host's threads tell each other things by means of their own, which the checker
//! does not see: what one did before it told the other is ordered all the same.

use std::sync::mpsc::channel;
use std::time::Duration;

use crossdock_sim_engine::{Access, Config, MemoryKind, Policy, Site};

use crate::machine::{LIMIT, Machine, POLICIES};

/// Pinned memory of a machine whose devices run by themselves.
fn pinned(policy: Policy) -> (Machine, u64) {
    let idle = Some(Duration::from_millis(1));
    let machine = Machine::with(Config {
        policy,
        idle,
        ..Config::default()
    });
    let site = Site::here("allocate");
    let at = machine.0.allocate(site, 0, 64, 1, MemoryKind::Pinned);
    let at = at.unwrap();
    (machine, at)
}

#[test]
fn what_a_host_function_used_may_be_freed_by_whom_it_told() {
    for policy in POLICIES {
        let (machine, memory) = pinned(policy);
        let (a, engine) = (machine.stream(), machine.0.clone());
        let ((tell, told), (leave, left)) = (channel(), channel::<()>());
        machine.fill("before", a, memory, 64, 7);
        let function = move || {
            engine.touch(Site::here("touch"), memory, 64, Access::Write);
            tell.send(()).unwrap();
            // It is still being called while the memory is freed.
            left.recv_timeout(LIMIT).unwrap();
        };
        let site = Site::here("host_call");
        machine.0.host_call(site, a, Box::new(function)).unwrap();
        told.recv_timeout(LIMIT).expect("the function is called");
        machine.0.free(Site::here("free"), memory).unwrap();
        leave.send(()).unwrap();
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn what_host_code_told_a_running_host_function_is_ordered() {
    for policy in POLICIES {
        let (machine, memory) = pinned(policy);
        let (a, b, engine) = (machine.stream(), machine.stream(), machine.0.clone());
        let ((tell, told), (go, goes)) = (channel(), channel::<()>());
        let function = move || {
            tell.send(()).unwrap();
            goes.recv_timeout(LIMIT).unwrap();
            engine.touch(Site::here("touch"), memory, 64, Access::Read);
        };
        let site = Site::here("host_call");
        machine.0.host_call(site, a, Box::new(function)).unwrap();
        told.recv_timeout(LIMIT).expect("the function is called");
        machine.fill("meanwhile", b, memory, 64, 8);
        machine.synchronize(b).unwrap();
        go.send(()).unwrap();
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}
