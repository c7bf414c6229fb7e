//! A tensor that goes to and fro between devices that share its memory.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]
#![expect(clippy::cast_possible_truncation, reason = "sizes are small")]

use std::path::Path;
use std::sync::Barrier;

use crossdock::{CostCache, CostOrigin, Device, RouteChoice, RouteKind, Runtime, Tensor};
use crossdock_e2e::{
    asynchronous, compile_plugin, ext_dev, plugin_file, report, root, traced, with_environment,
};
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};
use serde_json::Value;

/// The CPU and OpenCL's first device; `None` where this run did not build the plugin.
fn cpu_and_opencl() -> Option<(Runtime, [Device; 2])> {
    let Some(file) = plugin_file("opencl") else {
        report("skipped: the OpenCL plugin was not built in this run");
        return None;
    };
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(file).open().unwrap();
    let devices = ["cpu:0", "opencl:0"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    Some((runtime, devices))
}

#[test]
fn a_tensor_that_goes_to_and_fro_can_be_dropped() {
    let Some((_runtime, [cpu, opencl])) = cpu_and_opencl() else {
        return;
    };
    let layout = Layout::compact(Dtype::UINT8, &[4096]).unwrap();
    let mut tensor = Tensor::from_bytes(&cpu, &layout, &[7; 4096]).unwrap();
    // Far less than a long program does, on the small stack of a test's thread.
    for _ in 0..4_000 {
        for device in [&opencl, &cpu] {
            let choice = RouteChoice::Only(RouteKind::Alias);
            (tensor, _) = tensor.to(device, choice).unwrap();
        }
    }
    assert_eq!(tensor.read().unwrap(), [7; 4096]);
    drop(tensor);
}

#[test]
fn an_alias_of_an_alias_is_on_the_device_that_was_asked_for() {
    let Some(file) = plugin_file("cpu") else {
        return report("skipped: the CPU plugin was not built as a file in this run");
    };
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(file).plugin(asynchronous()).open().unwrap();
    let [first, second, third] =
        ["cpu:0", "cpu:1", "vpi:0"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    let layout = Layout::compact(Dtype::UINT8, &[4096]).unwrap();
    let source = Tensor::from_bytes(&first, &layout, &[7; 4096]).unwrap();
    let mut tensor = source.clone();
    for device in [&second, &third, &first] {
        let choice = RouteChoice::Only(RouteKind::Alias);
        (tensor, _) = tensor.to(device, choice).unwrap();
        assert_eq!(tensor.device(), device);
    }
    assert_eq!(tensor.address(), source.address());
}

#[test]
fn threads_that_map_one_tensor_of_opencl_at_once_read_its_bytes() {
    let Some((_runtime, [cpu, opencl])) = cpu_and_opencl() else {
        return;
    };
    let layout = Layout::compact(Dtype::UINT8, &[8192]).unwrap();
    let tensor = Tensor::from_bytes(&opencl, &layout, &[7; 8192]).unwrap();
    let begin = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                begin.wait();
                for round in 0..500 {
                    let choice = RouteChoice::Only(RouteKind::Alias);
                    let (alias, _) = tensor.to(&cpu, choice).unwrap();
                    assert!(alias.read().unwrap() == [7; 8192], "round {round}");
                }
            });
        }
    });
}

/// How often these hooks were called: what an alias takes, and what would copy.
fn counts(hooks: &[String]) -> [usize; 4] {
    let of = |names: &[&str]| {
        let is = |hook: &&String| names.contains(&hook.as_str());
        hooks.iter().filter(is).count()
    };
    let copies = ["copy", "copy_strided", "fill"];
    [of(&["map"]), of(&["adopt"]), of(&["allocate"]), of(&copies)]
}

/// Memory of `from`, shown to the host and adopted by `to`, is one memory for both for as long as
/// either has a tensor of it.
fn shares(folder: &Path, from: &Device, to: &Device) {
    const BYTES: usize = 1 << 20;
    let layout = Layout::compact(Dtype::UINT8, &[1 << 20]).unwrap();
    let source = Tensor::from_bytes(from, &layout, &vec![1; BYTES]).unwrap();
    let explained = source.explain(to, RouteChoice::Best);
    let ((alias, route), hooks) = traced(folder, || source.to(to, RouteChoice::Best).unwrap());
    assert_eq!(counts(&hooks), [1, 1, 0, 0], "{route}");
    assert_eq!((route.kind, route.bytes_copied), (RouteKind::Alias, 0));
    assert_eq!(route, explained);
    let steps = [
        format!("`{}` maps its memory for the host", from.plugin().name()),
        format!("`{}` adopts the memory of `{from}`", to.plugin().name()),
    ];
    let told: Vec<_> = route.steps.iter().map(ToString::to_string).collect();
    assert_eq!(told, steps);
    assert_eq!(alias.device(), to);
    // Written on either side, read on the other.
    assert!(alias.read().unwrap() == vec![1; BYTES], "{route}");
    alias.write(&vec![2; BYTES]).unwrap();
    assert!(source.read().unwrap() == vec![2; BYTES], "{route}");
    source.write(&vec![3; BYTES]).unwrap();
    assert!(alias.read().unwrap() == vec![3; BYTES], "{route}");
    // Back it is what it was.
    let ((back, _), hooks) = traced(folder, || alias.to(from, RouteChoice::Best).unwrap());
    assert_eq!(counts(&hooks), [0; 4], "{route}");
    assert_eq!(back.address(), source.address(), "{route}");
    // The owner outlives the views of it: it is given back once they are.
    let ((), hooks) = traced(folder, || drop((source, back)));
    assert!(!hooks.iter().any(|hook| ENDS.contains(&hook.as_str())));
    alias.write(&vec![4; BYTES]).unwrap();
    assert!(alias.read().unwrap() == vec![4; BYTES], "{route}");
    let ((), mut hooks) = traced(folder, || drop(alias));
    hooks.retain(|hook| ENDS.contains(&hook.as_str()));
    assert_eq!(hooks, ENDS, "{route}");
}

/// In the order in which an alias of two views ends.
const ENDS: [&str; 3] = ["release_adopted", "unmap", "free"];

#[test]
fn two_plugins_share_what_one_shows_and_the_other_adopts() {
    let name = "two_plugins_share_what_one_shows_and_the_other_adopts";
    // The trace is the process's.
    if with_environment(name, &[]) {
        let folder = tempfile::tempdir().unwrap();
        let lends = compile_plugin(&root().join("tests/plugins/lends.c"), folder.path(), &[]);
        let builder = Runtime::builder().search(false).costs(CostCache::Off);
        let runtime = builder.plugin(lends).plugin(asynchronous()).open().unwrap();
        let [lends, simulated] =
            ["ext_dev:0", "vpi:0"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
        shares(folder.path(), &lends, &simulated);
        shares(folder.path(), &simulated, &lends);
    }
}

/// What `scripts/setup --intel` wrote: the variables of a process with Intel's OpenCL beside PoCL.
fn intel() -> Option<Vec<(String, String)>> {
    let text = std::fs::read_to_string(root().join(".cache/env-intel.sh")).ok()?;
    let variable = |line: &str| {
        let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    Some(text.lines().filter_map(variable).collect())
}

#[test]
fn two_drivers_of_opencl_on_one_processor_share_their_memory() {
    let name = "two_drivers_of_opencl_on_one_processor_share_their_memory";
    let Some(file) = plugin_file("opencl") else {
        return report("skipped: the OpenCL plugin was not built in this run");
    };
    let Some(variables) = intel() else {
        return report("skipped: Intel's OpenCL is not here (scripts/setup --intel)");
    };
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    if with_environment(name, &variables) {
        let builder = Runtime::builder().search(false).costs(CostCache::Off);
        let runtime = builder.plugin(file).open().unwrap();
        let [Ok(first), Ok(second)] =
            ["opencl:0", "opencl:1"].map(|id| runtime.device(id.parse().unwrap()))
        else {
            return report("skipped: there are no two devices of OpenCL");
        };
        if first.driver_version() == second.driver_version() {
            return report("skipped: both devices of OpenCL are of one driver");
        }
        let folder = tempfile::tempdir().unwrap();
        shares(folder.path(), &first, &second);
        shares(folder.path(), &second, &first);
    }
}

/// Whether each move of each layout shares memory, as its route says and as a write shows, and how many
/// went by costs from a file.
fn sharing(runtime: &Runtime) -> (Vec<(String, bool)>, usize) {
    let devices = runtime.devices();
    let pairs = devices
        .iter()
        .flat_map(|from| devices.iter().map(move |to| (from, to)));
    let shapes: [&[i64]; 2] = [&[8, 8], &[512, 256]];
    let (mut found, mut priced) = (Vec::new(), 0);
    for ((from, to), shape) in pairs.flat_map(|pair| shapes.map(|shape| (pair, shape))) {
        let layout = Layout::compact(Dtype::UINT8, shape).unwrap();
        let bytes = |value: u8| vec![value; layout.bytes() as usize];
        let whole = Tensor::from_bytes(from, &layout, &bytes(1)).unwrap();
        for tensor in views(&whole) {
            let (moved, route) = tensor.to(to, RouteChoice::Best).unwrap();
            priced += usize::from(route.cost.origin == CostOrigin::Kept);
            whole.write(&bytes(2)).unwrap();
            let seen = moved.read().unwrap();
            let is_shared = seen.iter().all(|byte| *byte == 2);
            assert_eq!(is_shared, route.kind == RouteKind::Alias, "{route}");
            assert!(is_shared || seen.iter().all(|byte| *byte == 1), "{route}");
            whole.write(&bytes(1)).unwrap();
            found.push((format!("{from} -> {to} {:?}", tensor.layout()), is_shared));
        }
    }
    (found, priced)
}

/// All of it, rows, every other element from the second on, and transposed.
fn views(whole: &Tensor) -> [Tensor; 4] {
    let every = |step| {
        let axis = |extent: &i64| AxisSlice {
            start: step - 1,
            step,
            len: extent / 2,
        };
        let axes: Vec<_> = whole.layout().shape().iter().map(axis).collect();
        whole.slice(&axes).unwrap()
    };
    let transposed = whole.permute(&[1, 0]).unwrap();
    [whole.clone(), every(1), every(2), transposed]
}

/// Changes the curves of each record: the dearest way's are the cheapest's, or each copy costs nothing.
fn turn_round(file: &Path, is_free: bool) {
    let mut content: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let records = content.get_mut("records").unwrap();
    for record in records.as_array_mut().unwrap() {
        let ways = record.get_mut("costs").unwrap();
        let ways = ways.as_object_mut().unwrap();
        let seconds = |curve: &Value| curve.pointer("/0/seconds").unwrap().as_f64().unwrap();
        let mut known: Vec<_> = ways
            .iter()
            .filter(|(_, curve)| !curve.is_null())
            .map(|(way, curve)| (way.clone(), curve.clone()))
            .collect();
        known.sort_by(|one, other| seconds(&one.1).total_cmp(&seconds(&other.1)));
        let turned: Vec<_> = known.iter().rev().map(|(_, curve)| curve.clone()).collect();
        for ((way, _), mut curve) in known.into_iter().zip(turned) {
            if is_free {
                curve = serde_json::json!([{ "bytes": 1, "seconds": 1e-9 }]);
            }
            ways.insert(way, curve);
        }
    }
    std::fs::write(file, serde_json::to_vec(&content).unwrap()).unwrap();
}

#[test]
fn what_copies_cost_never_decides_whether_memory_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("costs.json");
    let ext_dev = ext_dev(folder.path());
    let sharing_by = |costs: CostCache| {
        let mut builder = Runtime::builder().search(false).costs(costs);
        builder = builder.plugin(&ext_dev).plugin(asynchronous());
        if let Some(file) = plugin_file("opencl") {
            builder = builder.plugin(file);
        }
        sharing(&builder.open().unwrap())
    };
    let (without, _) = sharing_by(CostCache::Off);
    let is_any = |shared: bool| without.iter().any(|(_, is_shared)| *is_shared == shared);
    assert!(is_any(true) && is_any(false));
    let (measured, _) = sharing_by(CostCache::File(file.clone()));
    assert_eq!(measured, without);
    for is_free in [false, true] {
        turn_round(&file, is_free);
        let (turned, priced) = sharing_by(CostCache::File(file.clone()));
        assert_eq!(turned, without);
        assert!(priced > 0, "the costs in the file were not taken");
    }
}

/// Memory of the CPU that OpenCL adopts, and memory of OpenCL that it shows the host, with these bytes: as
/// the first one's, as the host's and as the object.
fn in_both(bytes: &[u8]) -> Option<(Runtime, Vec<[Tensor; 3]>)> {
    let (runtime, [cpu, opencl]) = cpu_and_opencl()?;
    let layout = Layout::compact(Dtype::UINT8, &[i64::try_from(bytes.len()).unwrap()]).unwrap();
    let shared = [(&cpu, &opencl), (&opencl, &cpu)].map(|(home, other)| {
        let root = Tensor::from_bytes(home, &layout, bytes).unwrap();
        let choice = RouteChoice::Only(RouteKind::Alias);
        let (view, _) = root.to(other, choice).unwrap();
        let (host, object) = if home == &cpu {
            (root.clone(), view)
        } else {
            (view, root.clone())
        };
        [root, host, object]
    });
    Some((runtime, shared.into()))
}

fn part(of: &Tensor, start: usize, (count, step): (usize, usize)) -> Tensor {
    let [start, step, len] = [start, step, count].map(|number| i64::try_from(number).unwrap());
    of.slice(&[AxisSlice { start, step, len }]).unwrap()
}

#[test]
fn a_copy_inside_memory_that_opencl_has_too_is_made() {
    let numbers: Vec<u8> = (0..87).collect();
    let Some((_runtime, shared)) = in_both(&numbers) else {
        return;
    };
    let mut wrong = Vec::new();
    for [root, host, object] in &shared {
        for (to, from) in [(0, 63), (0, 1), (1, 63), (63, 0), (5, 40)] {
            for (dst, src) in [(host, object), (object, host)] {
                root.write(&numbers).unwrap();
                let source = part(src, from, (1, 1));
                part(dst, to, (1, 1)).copy_from(&source, None).unwrap();
                let mut wanted = numbers.clone();
                wanted[to] = from as u8;
                if root.read().unwrap() != wanted {
                    let (home, device) = (root.device(), dst.device());
                    wrong.push(format!("{home}: element {from} to {to} on {device}"));
                }
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_strided_copy_inside_memory_that_opencl_has_too_is_made() {
    let numbers: Vec<u8> = (0..96).collect();
    let Some((_runtime, shared)) = in_both(&numbers) else {
        return;
    };
    let mut wrong = Vec::new();
    for [root, host, object] in &shared {
        // Elements of both between each other, and apart.
        for (to, from, steps) in [
            (0, 1, (2, 2)),
            (0, 48, (4, 1)),
            (48, 0, (1, 4)),
            (0, 40, (3, 5)),
        ] {
            for (dst, src) in [(host, object), (object, host)] {
                root.write(&numbers).unwrap();
                let source = part(src, from, (9, steps.1));
                let target = part(dst, to, (9, steps.0));
                target.copy_from(&source, None).unwrap();
                let mut wanted = numbers.clone();
                for element in 0..9 {
                    let (to, from) = (to + element * steps.0, from + element * steps.1);
                    wanted[to] = from as u8;
                }
                if root.read().unwrap() != wanted {
                    let (home, device) = (root.device(), dst.device());
                    wrong.push(format!("{home}: elements from {from} to {to} on {device}"));
                }
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}
