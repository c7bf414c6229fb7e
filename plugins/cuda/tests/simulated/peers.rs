//! Links between two devices: proved before a copy goes over one, and gone around where they lie.

use crossdock::{RouteChoice, RouteKind, Stream, Tensor};
use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::{over, runtime};

const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);
const WAYS: [[&str; 2]; 3] = [
    ["cuda:0", "cuda:1"],
    ["cuda:1", "cuda:0"],
    ["cuda:0", "cuda:1"],
];

/// Runs a test under each policy with a word of the simulator's about links.
fn with(test: &str, word: &str) -> bool {
    let runs = ["lazy", "seeded", "threads"]
        .map(|policy| ["--cuda", "2", "--policy", policy, "--set", word]);
    let runs = runs.each_ref().map(<[&str; 6]>::as_slice);
    over(test, &runs)
}

/// Moves numbers each way, at once and on a stream of either device; what is said of the first route.
fn moved() -> Vec<String> {
    let runtime = runtime();
    let layout = Layout::compact(Dtype::UINT32, &[20_000]).unwrap();
    let mut said = Vec::new();
    for (seed, ends) in (1..).zip(WAYS) {
        let numbers = (0..20_000_u32).map(|at| at.wrapping_add(seed).wrapping_mul(2_654_435_761));
        let bytes: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
        let [from, to] = ends.map(|id| runtime.device(id.parse().unwrap()).unwrap());
        let tensor = Tensor::from_bytes(&from, &layout, &bytes).unwrap();
        let (moved, route) = tensor.to(&to, RouteChoice::Best).unwrap();
        assert!(moved.read().unwrap() == bytes, "{route}");
        for end in [&from, &to] {
            let stream = Stream::new(end).unwrap();
            let (moved, route) = tensor.to_on(&to, DIRECT, &stream).unwrap();
            assert!(moved.read().unwrap() == bytes, "{route}");
        }
        // Whoever asks is told the same as whoever moves.
        let explained = tensor.explain(&to, RouteChoice::Best).to_string();
        assert_eq!(explained, route.to_string());
        said.push(explained);
    }
    said
}

#[test]
fn a_link_is_proved_before_a_copy_goes_over_it() {
    if !with(
        "peers::a_link_is_proved_before_a_copy_goes_over_it",
        "peers=1",
    ) {
        return;
    }
    for said in moved() {
        assert!(said.contains("which was proved"), "{said}");
    }
}

#[test]
fn a_link_that_drops_what_goes_over_it_is_gone_around() {
    if !with(
        "peers::a_link_that_drops_what_goes_over_it_is_gone_around",
        "peers=drops",
    ) {
        return;
    }
    for said in moved() {
        is_gone_around(&said);
    }
}

#[test]
fn a_link_that_writes_to_a_mirror_is_gone_around() {
    if !with(
        "peers::a_link_that_writes_to_a_mirror_is_gone_around",
        "peers=mirrors",
    ) {
        return;
    }
    for said in moved() {
        is_gone_around(&said);
    }
}

/// The reason is told, and the driver copies without the link.
fn is_gone_around(said: &str) {
    assert!(said.contains("of 65536 bytes from its device"), "{said}");
    assert!(
        said.contains("direct") && said.contains("without it all did"),
        "{said}"
    );
}

#[test]
fn devices_without_a_link_are_told_so() {
    if !with("peers::devices_without_a_link_are_told_so", "peers=0") {
        return;
    }
    for said in moved() {
        assert!(said.contains("there is no peer link of `cuda:"), "{said}");
    }
}
