//! Threads that take turns do the same each time. Alone in its process: turns are those of all threads.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use crossdock_sim_engine::{Config, Engine, Error, Policy, Site};

/// What threads do that call whenever they come to it.
fn raced(policy: Policy, seed: u64, turns: bool) -> u64 {
    let config = Config {
        policy,
        seed,
        turns,
        idle: None,
        memory_bytes: 1 << 20,
        ..Config::default()
    };
    let engine = Engine::new(config).unwrap();
    let call = || {
        for _ in 0..12 {
            let stream = engine.create_stream(Site::new("create"), 0).unwrap();
            let event = engine.create_event(Site::new("event"), 0).unwrap();
            engine.record(Site::new("record"), event, stream).unwrap();
            engine
                .host_call(Site::new("call"), stream, Box::new(std::thread::yield_now))
                .unwrap();
            engine
                .synchronize_stream(Site::new("synchronize"), stream, None)
                .unwrap();
            engine.destroy_stream(Site::new("destroy"), stream).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(call);
        }
    });
    engine.trace()
}

#[test]
fn threads_that_take_turns_do_the_same_each_time() {
    for policy in [Policy::Seeded, Policy::Lazy] {
        let first = raced(policy, 7, true);
        for _ in 0..4 {
            assert_eq!(raced(policy, 7, true), first, "{policy:?}");
        }
        let others: Vec<u64> = (8..12).map(|seed| raced(policy, seed, true)).collect();
        assert!(others.iter().any(|other| *other != first), "{policy:?}");
    }
    let config = Config {
        policy: Policy::Threads,
        turns: true,
        ..Config::default()
    };
    let refused = Engine::new(config).unwrap_err();
    assert!(matches!(refused, Error::Invalid { .. }), "{refused:?}");
}
