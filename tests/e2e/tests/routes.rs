//! Tensors between every pair of devices, by every route, verified through the destination.
#![expect(
    clippy::cast_possible_truncation,
    reason = "the low byte is what is wanted"
)]

use crossdock::{
    CostCache, Device, Error, RouteChoice, RouteKind, Runtime, Stream, Tensor, explain, explain_on,
};
use crossdock_e2e::{asynchronous, compile_plugin, everything, report, root};
use crossdock_sdk::abi::MemoryKind;
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

/// Bytes that differ from each other, from their neighbours and from zero.
fn pattern(length: u64) -> Vec<u8> {
    (0..length)
        .map(|at| (at.wrapping_mul(167) >> 3) as u8 | 1)
        .collect()
}

fn pairs(runtime: &Runtime) -> Vec<(Device, Device)> {
    let devices = runtime.devices();
    let all = |from: &Device| {
        devices
            .iter()
            .map(|to| (from.clone(), to.clone()))
            .collect::<Vec<_>>()
    };
    devices.iter().flat_map(all).collect()
}

#[test]
fn every_pair_by_every_route_delivers_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    // Longer than two chunks, and not a multiple of one.
    let layout = Layout::compact(Dtype::FLOAT32, &[3, 1_000_001]).unwrap();
    let bytes = pattern(layout.bytes());
    let kinds = [RouteKind::Alias, RouteKind::Direct, RouteKind::Staged];
    for (from, to) in pairs(&runtime) {
        for choice in kinds
            .map(RouteChoice::Only)
            .into_iter()
            .chain([RouteChoice::Best])
        {
            let source = Tensor::from_bytes(&from, &layout, &bytes).unwrap();
            match source.to(&to, choice) {
                Ok((moved, route)) => {
                    assert_eq!(moved.device(), &to);
                    assert!(moved.read().unwrap() == bytes, "{route}");
                }
                Err(Error::Refused { reasons, .. }) => {
                    assert!(!reasons.is_empty(), "{from} -> {to}: a refusal says why");
                    assert_ne!(choice, RouteChoice::Best, "{from} -> {to}: {reasons:?}");
                }
                Err(error) => panic!("{from} -> {to} by {choice:?}: {error}: {}", error.why()),
            }
        }
    }
}

#[test]
fn a_copy_does_not_see_what_is_written_to_its_source_and_an_alias_does() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let layout = Layout::compact(Dtype::UINT8, &[4096]).unwrap();
    let (before, after) = (pattern(4096), vec![0_u8; 4096]);
    for (from, to) in pairs(&runtime) {
        for kind in [RouteKind::Direct, RouteKind::Staged] {
            let source = Tensor::from_bytes(&from, &layout, &before).unwrap();
            let Ok((moved, route)) = source.to(&to, RouteChoice::Only(kind)) else {
                continue;
            };
            source.write(&after).unwrap();
            assert!(moved.read().unwrap() == before, "{route}");
        }
    }
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    let source = Tensor::from_bytes(&cpu, &layout, &before).unwrap();
    let (alias, route) = source.to(&cpu, RouteChoice::Best).unwrap();
    assert_eq!((route.kind, route.bytes_copied), (RouteKind::Alias, 0));
    source.write(&after).unwrap();
    assert_eq!(alias.read().unwrap(), after);
}

#[test]
fn strided_views_arrive_with_the_values_of_the_view() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    let layout = Layout::compact(Dtype::UINT16, &[6, 10]).unwrap();
    let whole = Tensor::from_bytes(&cpu, &layout, &pattern(layout.bytes())).unwrap();
    let part = [
        AxisSlice {
            start: 5,
            step: -2,
            len: 3,
        },
        AxisSlice {
            start: 1,
            step: 3,
            len: 3,
        },
    ];
    let views = [whole.permute(&[1, 0]).unwrap(), whole.slice(&part).unwrap()];
    for to in runtime.devices() {
        for view in &views {
            let (moved, route) = view.to(&to, RouteChoice::Only(RouteKind::Direct)).unwrap();
            assert!(moved.layout().is_contiguous());
            assert_eq!(moved.read().unwrap(), view.read().unwrap(), "{route}");
        }
    }
}

#[test]
fn a_tensor_without_elements_goes_everywhere_and_touches_no_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let layout = Layout::compact(Dtype::FLOAT64, &[3, 0, 2]).unwrap();
    for (from, to) in pairs(&runtime) {
        let source = Tensor::from_bytes(&from, &layout, &[]).unwrap();
        for kind in [RouteKind::Direct, RouteKind::Staged] {
            let choice = RouteChoice::Only(kind);
            let moved = source.to(&to, choice);
            if explain(&layout, &from, &to, choice).kind == RouteKind::Refused {
                assert!(
                    matches!(moved, Err(Error::Refused { .. })),
                    "{from} -> {to}"
                );
                continue;
            }
            let (moved, _) = moved.unwrap();
            assert_eq!(
                (moved.layout().shape(), moved.nbytes()),
                ([3, 0, 2].as_slice(), 0)
            );
        }
    }
}

#[test]
fn opencl_on_a_cpu_device_aliases_host_memory_without_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let Ok(opencl) = runtime.device("opencl:0".parse().unwrap()) else {
        return report("skipped: no OpenCL device");
    };
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    let layout = Layout::compact(Dtype::FLOAT32, &[1024]).unwrap();
    let source = Tensor::from_bytes(&cpu, &layout, &pattern(4096)).unwrap();
    let (alias, route) = source.to(&opencl, RouteChoice::Best).unwrap();
    assert_eq!(
        (route.kind, route.bytes_copied),
        (RouteKind::Alias, 0),
        "{route}"
    );
    assert_eq!(alias.read().unwrap(), pattern(4096));
}

#[test]
fn what_is_explained_of_a_move_on_a_stream_is_what_the_move_does() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let kinds = [RouteKind::Alias, RouteKind::Direct, RouteKind::Staged];
    let kinds = kinds.map(RouteChoice::Only).into_iter();
    let choices: Vec<_> = kinds
        .chain([RouteChoice::Best, RouteChoice::Copy])
        .collect();
    let devices = runtime.devices();
    let streams: Vec<_> = devices
        .iter()
        .filter_map(|device| Stream::new(device).ok())
        .collect();
    let mut waits = 0;
    for (from, to) in pairs(&runtime) {
        for (choice, stream) in choices
            .iter()
            .flat_map(|choice| streams.iter().map(move |stream| (*choice, stream)))
        {
            let source = Tensor::from_bytes(&from, &layout, &pattern(64)).unwrap();
            let explained = source.explain_on(&to, choice, stream).unwrap();
            assert_eq!(
                explain_on(&layout, &from, &to, choice, stream).unwrap(),
                explained
            );
            // What a plugin declines is known once it was asked, and the next route is taken then.
            match source.to_on(&to, choice, stream) {
                Ok((_, done)) if done.refused == explained.refused => assert_eq!(done, explained),
                Ok((_, done)) => assert!(done.refused.len() > explained.refused.len(), "{done}"),
                Err(Error::Refused { reasons, .. }) => {
                    let is_declined = reasons.len() > explained.refused.len();
                    assert!(
                        is_declined || explained.kind == RouteKind::Refused,
                        "{explained}"
                    );
                }
                Err(error) => panic!("{from} -> {to} by {choice:?}: {error}: {}", error.why()),
            }
            let is_waited = explained
                .to_string()
                .contains("waits for the work on the stream");
            waits += u32::from(is_waited);
            let is_told = is_waited
                || explained
                    .to_string()
                    .contains("are submitted to streams before the call returns");
            assert!(
                is_told || explained.kind != RouteKind::Staged,
                "{explained}"
            );
        }
    }
    assert!(waits > 0);
}

#[test]
fn pinned_memory_is_copied_directly_by_every_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let lends = compile_plugin(&root().join("tests/plugins/lends.c"), folder.path(), &[]);
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(lends).plugin(asynchronous()).open().unwrap();
    let [pins, other] =
        ["vpi:1", "ext_dev:0"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    let layout = Layout::compact(Dtype::UINT8, &[4096]).unwrap();
    let direct = RouteChoice::Only(RouteKind::Direct);
    for (kind, is_reached) in [(MemoryKind::PINNED, true), (MemoryKind::DEVICE, false)] {
        let source = Tensor::empty_of(&pins, &layout, kind).unwrap();
        source.write(&pattern(4096)).unwrap();
        let route = source.explain(&other, direct);
        assert_eq!(route.kind == RouteKind::Direct, is_reached, "{route}");
        let moved = source.to(&other, direct);
        assert_eq!(moved.is_ok(), is_reached, "{route}");
        let Ok((moved, _)) = moved else { continue };
        assert_eq!(moved.read().unwrap(), pattern(4096), "{route}");
        // And written to by the other's plugin.
        moved.write(&[7; 4096]).unwrap();
        source.copy_from(&moved, None).unwrap();
        assert_eq!(source.read().unwrap(), [7; 4096]);
    }
}

#[test]
fn memory_that_one_device_shows_the_host_and_another_adopts_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let layout = Layout::compact(Dtype::FLOAT32, &[1024]).unwrap();
    let (Ok(opencl), Ok(simulated)) = (
        runtime.device("opencl:0".parse().unwrap()),
        runtime.device("vpi:0".parse().unwrap()),
    ) else {
        return report("skipped: no OpenCL device");
    };
    for (from, to) in [(&opencl, &simulated), (&simulated, &opencl)] {
        let source = Tensor::from_bytes(from, &layout, &pattern(4096)).unwrap();
        let explained = source.explain(to, RouteChoice::Best);
        let (alias, route) = source.to(to, RouteChoice::Best).unwrap();
        assert_eq!((route.kind, route.bytes_copied), (RouteKind::Alias, 0));
        assert_eq!((route.steps.len(), &explained), (2, &route), "{route}");
        // Written on either side, read on the other.
        assert_eq!(alias.read().unwrap(), pattern(4096), "{route}");
        alias.write(&[7; 4096]).unwrap();
        assert_eq!(source.read().unwrap(), [7; 4096], "{route}");
        source.write(&pattern(4096)).unwrap();
        assert_eq!(alias.read().unwrap(), pattern(4096), "{route}");
        let (back, _) = alias.to(from, RouteChoice::Best).unwrap();
        assert_eq!(back.address(), source.address(), "{route}");
        // Each of them keeps the memory.
        drop((source, alias));
        assert_eq!(back.read().unwrap(), pattern(4096), "{route}");
    }
}

#[test]
fn an_explanation_is_what_happens_to_every_kind_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let layout = Layout::compact(Dtype::UINT8, &[512]).unwrap();
    let kinds = [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED];
    let mut never_mapped = 0;
    for (from, to) in pairs(&runtime) {
        for kind in kinds {
            let Ok(tensor) = Tensor::empty_of(&from, &layout, kind) else {
                continue;
            };
            tensor.write(&pattern(512)).unwrap();
            let explained = tensor.explain(&to, RouteChoice::Best);
            let (moved, route) = tensor.to(&to, RouteChoice::Best).unwrap();
            assert_eq!(
                explained.kind, route.kind,
                "{kind:?}: {explained}, but {route}"
            );
            assert_eq!(moved.read().unwrap(), pattern(512), "{route}");
            if kind == MemoryKind::DEVICE {
                let of_device = explain(&layout, &from, &to, RouteChoice::Best);
                assert_eq!(of_device.kind, route.kind, "{of_device}, but {route}");
            }
            let has_hook = from.plugin().hooks().table().map().is_some();
            never_mapped += u32::from(has_hook && route.kind != RouteKind::Alias);
        }
    }
    // One of the simulated devices declines the hook that its plugin has.
    assert!(never_mapped > 0);
}
