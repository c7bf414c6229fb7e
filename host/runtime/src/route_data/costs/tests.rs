//! Costs as the planner uses them, and the file as others could leave it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crossdock_sdk::abi::MemoryKind;
use crossdock_sdk::dlpack::{Dtype, Layout};

use super::curve::{Curve, Point};
use super::store::{PairIdentity, Store};
use super::table::WayCosts;
use super::{Arrangement, Asked, Class, CostCache, CostOrigin, Costs, EndClass, Residence};
use crate::devices::device::Device;
use crate::devices::shared::Shared;
use crate::route_data::kinds::{RouteChoice, RouteKind, Way};
use crate::routes::route::{Route, explain};
use crate::tensors::memory::Memory;
use crate::tensors::tensor::Tensor;
use crate::test_plugins::test_plugin_memory::{asked, device};

fn curve(points: &[(u64, f64)]) -> Result<Curve, String> {
    let point = |(bytes, seconds): &(u64, f64)| Point {
        bytes: *bytes,
        seconds: *seconds,
    };
    let points: Vec<Point> = points.iter().map(point).collect();
    Curve::try_from(points).map_err(|error| error.to_string())
}

#[test]
fn a_curve_is_flat_below_its_first_point_and_goes_on_straight_behind_its_last() {
    let curve = curve(&[(1000, 1.0), (2000, 2.0), (4000, 3.0)]).unwrap();
    let expected = [
        (1, 1.0),
        (1000, 1.0),
        (1500, 1.5),
        (3000, 2.5),
        (4000, 3.0),
        (6000, 4.0),
    ];
    for (bytes, seconds) in expected {
        assert!((curve.seconds(bytes) - seconds).abs() < 1e-9, "{bytes}");
    }
}

#[test]
fn points_that_are_no_curve_are_refused() {
    let wrong: [&[(u64, f64)]; 7] = [
        &[],
        &[(0, 1.0)],
        &[(1, 0.0)],
        &[(1, -1.0)],
        &[(2, 1.0), (2, 2.0)],
        &[(1, 2.0), (2, 1.0)],
        &[(1, f64::INFINITY)],
    ];
    for points in wrong {
        assert!(curve(points).is_err(), "{points:?}");
    }
    let many: Vec<(u64, f64)> = (1..100).map(|at| (at, 1.0)).collect();
    assert!(curve(&many).is_err());
}

#[test]
fn the_environment_names_the_file_or_turns_costs_off() {
    let of = |set: &[(&str, &str)]| {
        let set: HashMap<String, OsString> = set
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect();
        CostCache::of(|name| set.get(name).cloned())
    };
    let file = |path: &str| CostCache::File(path.into());
    let cases = [
        (
            of(&[("CROSSDOCK_COSTS", "off"), ("HOME", "/h")]),
            CostCache::Off,
        ),
        (
            of(&[("CROSSDOCK_COSTS", "memory"), ("HOME", "/h")]),
            CostCache::Memory,
        ),
        (of(&[("CROSSDOCK_COSTS", "/f"), ("HOME", "/h")]), file("/f")),
        (
            of(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]),
            file("/x/crossdock/costs.json"),
        ),
        (
            of(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")]),
            file("/h/.cache/crossdock/costs.json"),
        ),
        (of(&[]), CostCache::Memory),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

/// Explains a copy of 1 MiB between the devices of plugins 8 and 9.
fn explained(cache: &CostCache) -> Route {
    let shared = Arc::new(Shared::new(None, cache));
    let (from, to) = (device::<8>(&shared), device::<9>(&shared));
    let layout = Layout::compact(Dtype::UINT8, &[1 << 20]).unwrap();
    let once = explain(&layout, &from, &to, RouteChoice::Best);
    let copies = asked::<8>().copies.load(SeqCst);
    assert_eq!(explain(&layout, &from, &to, RouteChoice::Best), once);
    assert_eq!(asked::<8>().copies.load(SeqCst), copies);
    once
}

#[test]
fn costs_are_measured_once_and_not_at_all_where_they_are_off_or_kept() {
    let copies = || asked::<8>().copies.load(SeqCst);
    assert_eq!(explained(&CostCache::Off).cost.time, None);
    assert_eq!(copies(), 0);
    let route = explained(&CostCache::Memory);
    assert_eq!(route.cost.origin, CostOrigin::Measured);
    assert!(route.cost.time.unwrap() > Duration::ZERO);
    assert!(route.to_string().contains("measured"), "{route}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("costs.json");
    let shared = Arc::new(Shared::new(None, &CostCache::Off));
    let pair =
        PairIdentity::new([&device::<8>(&shared), &device::<9>(&shared)].map(Device::in_plugin));
    Store::new(Some(&file), shared.chunks().chunk_bytes()).write(&pair, COMPACT, &costs());
    let measured = copies();
    let route = explained(&CostCache::File(file));
    assert_eq!(route.cost.origin, CostOrigin::Kept);
    assert_eq!(route.cost.time, Some(Duration::from_secs(2)));
    assert_eq!(copies(), measured);
}

/// Both ends in memory of the usual kind.
const fn usual(source: Arrangement, destination: Arrangement) -> Class {
    const fn end(arrangement: Arrangement) -> EndClass {
        EndClass {
            arrangement,
            residence: Residence::Usual,
        }
    }
    Class {
        source: end(source),
        destination: end(destination),
    }
}

const COMPACT: Class = usual(Arrangement::Compact, Arrangement::Compact);
const PITCHED: Class = usual(Arrangement::Pitched, Arrangement::Compact);

/// A staged copy takes two seconds, whatever it copies.
fn costs() -> WayCosts {
    let mut costs = WayCosts::default();
    costs.set(Way::Staged, curve(&[(1, 2.0), (1 << 30, 2.0)]).ok());
    costs
}

#[test]
fn a_demanded_copy_takes_the_cheapest_way_by_costs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("costs.json");
    let shared = Arc::new(Shared::new(None, &CostCache::File(file.clone())));
    let (from, to) = (
        device::<20>(&shared),
        crate::devices::host_device::open().unwrap(),
    );
    let mut costs = costs();
    costs.set(Way::BySource, curve(&[(1, 3.0), (1 << 30, 3.0)]).ok());
    let store = Store::new(Some(&file), shared.chunks().chunk_bytes());
    store.write(
        &PairIdentity::new([&from, &to].map(Device::in_plugin)),
        COMPACT,
        &costs,
    );
    let layout = Layout::compact(Dtype::UINT8, &[1 << 20]).unwrap();
    let route = explain(&layout, &from, &to, RouteChoice::Copy);
    assert_eq!(route.kind, RouteKind::Staged, "{route}");
    assert_eq!(route.cost.time, Some(Duration::from_secs(2)), "{route}");
    assert!(
        route
            .instead
            .iter()
            .any(|other| other.to_string().starts_with("direct")),
        "{route}"
    );
    let direct = explain(&layout, &from, &to, RouteChoice::Only(RouteKind::Direct));
    assert_eq!(direct.cost.time, Some(Duration::from_secs(3)), "{direct}");
    // Within a device there is one way, and no look at costs.
    let own = explain(&layout, &to, &to, RouteChoice::Copy);
    assert_eq!(own.kind, RouteKind::Direct, "{own}");
}

#[test]
fn a_layout_is_of_the_class_that_its_rows_make_it() {
    let class = |dtype, shape: &[i64], strides: &[i64]| {
        Arrangement::of(&Layout::strided(dtype, shape, strides).unwrap())
    };
    let (byte, float, nibble) = (Dtype::UINT8, Dtype::FLOAT32, Dtype::FLOAT4_E2M1FN);
    for (dtype, shape, strides, expected) in [
        (byte, &[4, 64][..], &[64, 1][..], Arrangement::Compact),
        (byte, &[], &[], Arrangement::Compact),
        (byte, &[0, 9], &[7, 3], Arrangement::Compact),
        (byte, &[1, 64], &[9000, 1], Arrangement::Compact),
        (byte, &[4, 64], &[65, 1], Arrangement::Pitched),
        (float, &[4, 16], &[17, 1], Arrangement::Pitched),
        (byte, &[4, 1, 64], &[65, 3, 1], Arrangement::Pitched),
        // Rows of two axes, and rows that lie in planes.
        (byte, &[4, 8, 8], &[100, 8, 1], Arrangement::Pitched),
        (byte, &[3, 4, 64], &[512, 80, 1], Arrangement::Pitched),
        (nibble, &[4, 128], &[130, 1], Arrangement::Pitched),
        (nibble, &[4, 64], &[130, 1], Arrangement::Scattered),
        (byte, &[4, 63], &[64, 1], Arrangement::Scattered),
        (byte, &[4096], &[2], Arrangement::Scattered),
        // In another order, backwards, and over each other.
        (byte, &[64, 64], &[1, 64], Arrangement::Scattered),
        (byte, &[2, 3, 64], &[64, 128, 1], Arrangement::Scattered),
        (byte, &[4, 64], &[-64, 1], Arrangement::Scattered),
        (byte, &[4, 64], &[0, 1], Arrangement::Scattered),
        (byte, &[4, 64], &[32, 1], Arrangement::Scattered),
    ] {
        assert_eq!(
            class(dtype, shape, strides),
            expected,
            "{shape:?} {strides:?}"
        );
    }
}

#[test]
fn a_tensor_takes_the_order_of_its_layout_and_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("costs.json");
    let shared = Arc::new(Shared::new(None, &CostCache::File(file.clone())));
    let (from, to) = (
        device::<26>(&shared),
        crate::devices::host_device::open().unwrap(),
    );
    let store = Store::new(Some(&file), shared.chunks().chunk_bytes());
    let pair = PairIdentity::new([&from, &to].map(Device::in_plugin));
    let mut pinned = COMPACT;
    pinned.source.residence = Residence::Pinned;
    let cheapest = [
        (COMPACT, Way::BySource),
        (PITCHED, Way::PackedBySource),
        (
            usual(Arrangement::Scattered, Arrangement::Compact),
            Way::Staged,
        ),
        (pinned, Way::Staged),
    ];
    for (class, cheapest) in cheapest {
        let mut costs = WayCosts::default();
        for way in [Way::BySource, Way::PackedBySource, Way::Staged] {
            let seconds = if way == cheapest { 1.0 } else { 9.0 };
            costs.set(way, curve(&[(1, seconds), (1 << 30, seconds)]).ok());
        }
        store.write(&pair, class, &costs);
    }
    let of = |strides: &[i64]| Layout::strided(Dtype::UINT8, &[64, 64], strides).unwrap();
    for (strides, kind, step, class) in [
        (
            [64, 1],
            RouteKind::Direct,
            "`far26` copies",
            "compact to compact",
        ),
        (
            [99, 1],
            RouteKind::Direct,
            "is packed",
            "pitched to compact",
        ),
        (
            [1, 64],
            RouteKind::Staged,
            "in chunks",
            "scattered to compact",
        ),
    ] {
        let route = explain(&of(&strides), &from, &to, RouteChoice::Copy);
        assert_eq!((route.kind, route.steps.len()), (kind, 1), "{route}");
        assert!(route.steps[0].to_string().contains(step), "{route}");
        assert_eq!(route.cost.time, Some(Duration::from_secs(1)), "{route}");
        assert!(route.to_string().contains(class), "{route}");
    }
    let compact = of(&[64, 1]);
    let memory = Memory::allocate(&from, 4096, MemoryKind::PINNED).unwrap();
    let route = Tensor::of(memory, compact, 0).explain(&to, RouteChoice::Copy);
    assert_eq!(route.kind, RouteKind::Staged, "{route}");
    assert!(route.to_string().contains("compact pinned to"), "{route}");
}

#[test]
fn only_the_class_that_is_asked_for_is_measured() {
    let shared = Arc::new(Shared::new(None, &CostCache::Memory));
    let (from, to) = (device::<22>(&shared), device::<23>(&shared));
    let copies = || asked::<22>().copies.load(SeqCst);
    let explained = |strides: &[i64]| {
        let layout = Layout::strided(Dtype::UINT8, &[64, 64], strides).unwrap();
        explain(&layout, &from, &to, RouteChoice::Best)
    };
    for strides in [[64, 1], [99, 1], [1, 64]] {
        let before = copies();
        let route = explained(&strides);
        assert_eq!(route.cost.origin, CostOrigin::Measured, "{route}");
        let measured = copies();
        assert!(measured > before, "{route}");
        assert_eq!(explained(&strides), route);
        assert_eq!(copies(), measured);
    }
}

#[test]
fn a_pair_takes_no_more_than_its_time() {
    let shared = Arc::new(Shared::new(None, &CostCache::Memory));
    let (from, to) = (device::<22>(&shared), device::<23>(&shared));
    let devices = [&from, &to].map(Device::in_plugin);
    let pair = Costs::new(&CostCache::Memory, 1);
    let given = RefCell::new(Vec::new());
    let measure = |time: Duration| {
        given.borrow_mut().push(time);
        let is_first = given.borrow().len() == 1;
        (costs(), if is_first { time / 2 } else { time })
    };
    let end = |residence| EndClass {
        arrangement: Arrangement::Compact,
        residence,
    };
    let all = [Residence::Usual, Residence::Pinned, Residence::Managed];
    let mut times = Vec::new();
    for (source, destination) in all
        .into_iter()
        .flat_map(|one| all.map(|other| (one, other)))
    {
        let class = Class {
            source: end(source),
            destination: end(destination),
        };
        let known = pair.of(&Asked { devices, class }, Some(&measure)).unwrap();
        times.push(known.cost(Way::Staged, 1).time);
    }
    // Four classes get all that a class may take, one gets what the first left, and the others nothing.
    let given = given.into_inner();
    assert_eq!(given[1..4], [given[0]; 3]);
    assert_eq!(given[4..], [given[0] / 2]);
    let is_measured: Vec<_> = times.iter().map(Option::is_some).collect();
    assert_eq!(is_measured, [[true; 5].as_slice(), &[false; 4]].concat());
}

#[test]
fn what_is_done_once_takes_no_time_from_the_copies_that_are_timed() {
    let shared = Arc::new(Shared::new(None, &CostCache::Memory));
    let (from, to) = (device::<24>(&shared), device::<25>(&shared));
    // A context takes longer to make than all copies of a class may take.
    asked::<24>().first.store(100_000, SeqCst);
    let layout = Layout::compact(Dtype::UINT8, &[1 << 20]).unwrap();
    let route = explain(&layout, &from, &to, RouteChoice::Best);
    assert!(
        route.cost.time.unwrap() < Duration::from_millis(50),
        "{route}"
    );
    assert!(asked::<24>().longest.load(SeqCst) > 4 << 10);
}

#[test]
fn a_file_that_is_not_as_it_should_be_is_ignored_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new folder/costs.json");
    let shared = Arc::new(Shared::new(None, &CostCache::Off));
    let pair =
        PairIdentity::new([&device::<14>(&shared), &device::<15>(&shared)].map(Device::in_plugin));
    let store = Store::new(Some(&file), 1);
    store.write(&pair, COMPACT, &costs());
    assert_eq!(store.read(&pair, COMPACT), Some(costs()));
    assert_eq!(Store::new(Some(&file), 2).read(&pair, COMPACT), None);

    let kept = fs::read_to_string(&file).unwrap();
    let other_plugin = kept.replace("\"1.0.0\"", "\"1.0.1\"");
    // As earlier builds wrote it, which knew one class.
    let other_file = kept.replacen("\"version\": 2", "\"version\": 1", 1);
    let no_curve = kept.replace("2.0", "-2.0");
    let half = &kept[..kept.len() / 2];
    for text in [
        "",
        "{",
        "[]",
        "\u{0}",
        &other_plugin,
        &other_file,
        &no_curve,
        half,
    ] {
        fs::write(&file, text).unwrap();
        assert_eq!(store.read(&pair, COMPACT), None, "{text}");
        store.write(&pair, COMPACT, &costs());
        assert_eq!(store.read(&pair, COMPACT), Some(costs()), "{text}");
    }
    only_the_file_is_in(folder.path());
}

#[test]
fn writers_at_the_same_time_keep_each_others_costs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new folder/costs.json");
    let shared = Arc::new(Shared::new(None, &CostCache::Off));
    let pair =
        PairIdentity::new([&device::<14>(&shared), &device::<15>(&shared)].map(Device::in_plugin));
    let stores = || (1..=8).map(|bytes| Store::new(Some(&file), bytes));
    let begin = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for store in stores() {
            let (begin, pair) = (&begin, &pair);
            scope.spawn(move || {
                begin.wait();
                store.write(pair, COMPACT, &costs());
            });
        }
    });
    let kept: Vec<_> = stores().map(|store| store.read(&pair, COMPACT)).collect();
    assert_eq!(kept, vec![Some(costs()); 8]);
    only_the_file_is_in(folder.path());
}

fn only_the_file_is_in(folder: &Path) {
    let names: Vec<_> = fs::read_dir(folder.join("new folder"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["costs.json"]);
}

#[test]
fn a_file_that_cannot_be_written_costs_nothing_but_the_measuring() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let beneath_a_file = CostCache::File(folder.path().join("file/costs.json"));
    let a_folder = CostCache::File(folder.path().to_owned());
    for cache in [beneath_a_file, a_folder] {
        let shared = Arc::new(Shared::new(None, &cache));
        let (from, to) = (device::<10>(&shared), device::<11>(&shared));
        let layout = Layout::compact(Dtype::UINT8, &[4096]).unwrap();
        let route = explain(&layout, &from, &to, RouteChoice::Best);
        assert_eq!(route.cost.origin, CostOrigin::Measured);
    }
}

#[test]
fn nothing_but_a_regular_file_is_replaced() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let made = std::process::Command::new("mkfifo")
        .arg(at("pipe"))
        .status();
    assert!(made.unwrap().success());
    fs::write(at("theirs"), "text").unwrap();
    symlink(at("theirs"), at("link")).unwrap();
    symlink("/dev/null", at("null")).unwrap();
    let shared = Arc::new(Shared::new(None, &CostCache::Off));
    let pair =
        PairIdentity::new([&device::<18>(&shared), &device::<19>(&shared)].map(Device::in_plugin));
    for name in ["pipe", "link", "null"] {
        let kind = || fs::symlink_metadata(at(name)).unwrap().file_type();
        let before = kind();
        let store = Store::new(Some(&at(name)), 1);
        store.write(&pair, COMPACT, &costs());
        assert_eq!(store.read(&pair, COMPACT), None, "{name}");
        assert_eq!(kind(), before, "{name}");
    }
    assert_eq!(fs::read_to_string(at("theirs")).unwrap(), "text");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn a_measurement_that_failed_is_tried_again_and_not_for_ever() {
    let shared = Arc::new(Shared::new(None, &CostCache::Memory));
    let (from, to) = (device::<16>(&shared), device::<17>(&shared));
    let layout = Layout::compact(Dtype::UINT8, &[4096]).unwrap();
    let explained = || explain(&layout, &from, &to, RouteChoice::Best).cost.origin;
    let copies = || asked::<16>().copies.load(SeqCst);
    let fail_next = || asked::<16>().failing.store(copies() + 1, SeqCst);
    fail_next();
    assert_eq!(explained(), CostOrigin::Properties);
    assert_eq!(explained(), CostOrigin::Measured);

    let shared = Arc::new(Shared::new(None, &CostCache::Memory));
    let (from, to) = (device::<16>(&shared), device::<17>(&shared));
    let explained = || explain(&layout, &from, &to, RouteChoice::Best).cost.origin;
    for _ in 0..5 {
        let before = copies();
        fail_next();
        assert_eq!(explained(), CostOrigin::Properties);
        asked::<16>().failing.store(0, SeqCst);
        if copies() == before {
            return;
        }
    }
    unreachable!("it was tried each time");
}

#[test]
fn a_panic_while_measuring_leaves_the_pair_to_the_next() {
    let shared = Arc::new(Shared::new(None, &CostCache::Memory));
    let pair = shared
        .costs()
        .pair([&device::<18>(&shared), &device::<19>(&shared)].map(Device::in_plugin));
    let panicked = std::thread::spawn({
        let pair = Arc::clone(&pair);
        move || {
            let _claim = pair.claim().unwrap();
            std::panic::resume_unwind(Box::new("as a bug would"));
        }
    });
    assert!(panicked.join().is_err());
    let claim = pair.claim();
    assert!(claim.is_some() && pair.claim().is_none(), "one at a time");
}

#[test]
fn measuring_a_slow_device_ends_in_time_and_many_threads_measure_once() {
    let shared = Arc::new(Shared::new(None, &CostCache::Memory));
    let (from, to) = (device::<12>(&shared), device::<13>(&shared));
    // 1 MB/s: eight MiB would take eight seconds.
    asked::<12>().slowness.store(1000, SeqCst);
    let layout = Layout::compact(Dtype::UINT8, &[8 << 20]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| explain(&layout, &from, &to, RouteChoice::Best));
        }
    });
    // Some copies of the smallest size, each of 4 ms, and perhaps one of what the rest of the time is enough for; none
    // of the next, which takes 128 ms.
    let longest = asked::<12>().longest.load(SeqCst);
    assert!((4 << 10..128 << 10).contains(&longest), "{longest}");
    let copies = asked::<12>().copies.load(SeqCst);
    assert!(copies <= 17, "{copies}");
    let route = explain(&layout, &from, &to, RouteChoice::Best);
    assert!(route.cost.time.unwrap() > Duration::from_secs(4), "{route}");
}
