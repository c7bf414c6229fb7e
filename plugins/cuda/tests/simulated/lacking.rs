//! Drivers that lack functions which not every version has, under the whole runtime: capabilities that need them are not
//! claimed, and every exchange is right. `optional` has the same for the hooks.

use crossdock::{RouteChoice, explain};
use crossdock_sdk::abi::Capabilities;
use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::driver::Driver;
use crate::exchanges::{EXCHANGES, Foreign, LIMIT, Rig};
use crate::optional::OPTIONAL;
use crate::over;

#[test]
fn what_a_driver_lacks_is_cleared_and_every_exchange_is_right() {
    // Each by itself, and all at once.
    let sets = OPTIONAL.map(|name| format!("missing={name}"));
    let all = format!("missing={}", OPTIONAL.join(","));
    let sets = sets.iter().chain([&all]);
    let runs = sets.map(|set| ["--cuda", "2", "--set", set.as_str(), "--policy", "seeded"]);
    let runs: Vec<_> = runs.collect();
    let runs: Vec<&[&str]> = runs.iter().map(<[&str; 6]>::as_slice).collect();
    let name = "lacking::what_a_driver_lacks_is_cleared_and_every_exchange_is_right";
    if !over(name, &runs) {
        return;
    }
    let driver = Driver::open();
    let words = std::env::var("CROSSDOCK_SIM").unwrap();
    let waits_for_words = !words.contains("cuStreamWaitValue32_v2");
    let foreign = Foreign::new(&driver);
    let rig = Rig::open(&[], &foreign).unwrap();
    for device in &rig.cuda {
        let has = device.capabilities().contains(Capabilities::HOST_EVENTS);
        assert_eq!(has, waits_for_words);
    }
    for (exchange, make) in EXCHANGES {
        let done = make(&rig);
        done.unwrap_or_else(|error| panic!("{exchange}: {error}: {}", error.why()));
    }
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    // The explanation says who waits in the place of a stream.
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let told = explain(&layout, &rig.cpu, &rig.cuda[0], RouteChoice::Best).to_string();
    let waits = "where a stream of `cuda:0` comes after one of `cpu:0`, the caller waits";
    assert_eq!(told.contains(waits), !waits_for_words, "{told}");
    drop(rig);
    foreign.end(&driver, false);
    assert_eq!(driver.list_leaks(), "");
}
