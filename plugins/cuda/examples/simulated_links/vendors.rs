//! Copies between devices of two vendors, over links of which one is slower.

use crossdock::{CostCache, Device, Runtime, Tensor};
use crossdock_sdk::abi::MemoryKind;
use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::simulator::{Simulator, row, ways};
use crate::{BYTES, COPIED, Outcome};

/// Through host memory each way and both ways at once, and with one end in the other vendor's pinned memory.
pub(crate) fn run(simulator: &Simulator) -> Outcome {
    let runtime = Runtime::builder().costs(CostCache::Off).open()?;
    let ends = [
        runtime.device("cuda:0".parse()?)?,
        runtime.device("rocm:0".parse()?)?,
    ];
    staged(simulator, &ends)?;
    both_ways(simulator, &ends)?;
    from_pinned(simulator, &ends)
}

fn tensor(device: &Device, kind: MemoryKind, bytes: i64) -> Outcome<Tensor> {
    let layout = Layout::compact(Dtype::UINT8, &[bytes])?;
    let tensor = Tensor::empty_of(device, &layout, kind)?;
    tensor.fill(&[7], None)?;
    tensor.synchronize(None)?;
    Ok(tensor)
}

/// Each way, and how much memory of the host that took.
fn staged(simulator: &Simulator, [one, other]: &[Device; 2]) -> Outcome {
    for (bytes, asked) in [(BYTES, COPIED), (SHORT_BYTES, SHORT)] {
        for (from, to) in [(one, other), (other, one)] {
            for device in [from, to] {
                // Chunks that are kept are given back.
                device.trim(0)?;
            }
            let before = simulator.pinned_bytes()?;
            let src = tensor(from, MemoryKind::DEVICE, bytes)?;
            let dst = tensor(to, MemoryKind::DEVICE, bytes)?;
            let run = simulator.best(|| Ok(dst.copy_from(&src, None)?))?;
            let mib = bytes >> 20;
            row(
                &format!("staged {from} -> {to}, {mib} MiB"),
                bytes,
                &run,
                asked,
            );
            let extra = simulator.pinned_bytes()?.saturating_sub(before);
            println!(
                "row\textra memory of the host\t{:.1} MiB\t\t-\t<= 8 MiB",
                extra as f64 / f64::from(1 << 20)
            );
        }
    }
    Ok(())
}

fn both_ways(simulator: &Simulator, [one, other]: &[Device; 2]) -> Outcome {
    let device = |device| tensor(device, MemoryKind::DEVICE, BYTES);
    let [a, b, c, d] = [device(one)?, device(one)?, device(other)?, device(other)?];
    let run = simulator.best(|| {
        std::thread::scope(|scope| {
            let back = scope.spawn(|| b.copy_from(&d, None));
            c.copy_from(&a, None)?;
            Ok(back.join().map_err(|_panic| "the other copy panicked")??)
        })
    })?;
    ways(
        &format!("staged between {one} and {other}, both ways"),
        BYTES,
        &run,
        run.two,
    );
    Ok(())
}

/// What one vendor has pinned goes to the other's device, and comes from there, by the other vendor alone.
fn from_pinned(simulator: &Simulator, [one, other]: &[Device; 2]) -> Outcome {
    for (pinned, device) in [(one, other), (other, one)] {
        let host = tensor(pinned, MemoryKind::PINNED, BYTES)?;
        let there = tensor(device, MemoryKind::DEVICE, BYTES)?;
        for (to, from, way) in [(&there, &host, "to"), (&host, &there, "from")] {
            let run = simulator.best(|| Ok(to.copy_from(from, None)?))?;
            row(
                &format!("memory that {pinned} pinned {way} {device}"),
                BYTES,
                &run,
                COPIED,
            );
        }
    }
    Ok(())
}

const SHORT_BYTES: i64 = 4 << 20;
const SHORT: f64 = 0.7;
