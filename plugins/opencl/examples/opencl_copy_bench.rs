//! Times copies between host memory and OpenCL devices through the plugin's hooks.
//!
//! Without arguments it prints a table. With `--serve` it answers one line on stdin, `CASE BYTES`,
//! with one line on stdout, the seconds of one run; `scripts/peers-opencl` asks it in turn with
//! another library, so that both see the same machine.
#![expect(
    unsafe_code,
    reason = "copies and frees are unsafe to call in the contract"
)]
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::{
    collections::HashMap,
    io::{BufRead as _, Write as _},
    time::{Duration, Instant},
};

use crossdock_plugin_opencl::OpenCl;
use crossdock_sdk::{
    abi::{Address, AllocateArgs, CopyArgs, MemoryKind, ProbeState, Side, StreamHandle},
    plugin::{Error, Host, Plugin, read_fixed_text},
};

/// What is timed.
const CASES: [&str; 3] = ["upload", "upload-fresh", "download"];
const SIZES: [usize; 3] = [1 << 20, 64 << 20, 256 << 20];
const RUNS: usize = 9;

fn main() -> Result<(), Error> {
    let found = OpenCl::probe()?;
    if found.state != ProbeState::READY {
        println!("skipped: {}", read_fixed_text(&found.detail));
        return Ok(());
    }
    // SAFETY: null is a host that offers nothing.
    let plugin = OpenCl::open(unsafe { Host::from_raw(std::ptr::null()) })?;
    if std::env::args().nth(1).as_deref() == Some("--serve") {
        return serve(&plugin);
    }
    for device in 0..plugin.device_count() {
        let name = read_fixed_text(&plugin.device_info(device)?.name).to_owned();
        for case in CASES {
            for bytes in SIZES {
                let mut work = Work::new(&plugin, device, bytes)?;
                let mut times = Vec::new();
                for _ in 0..RUNS {
                    times.push(work.run(case)?);
                }
                times.sort();
                let median = times.get(RUNS / 2).copied().unwrap_or_default();
                let rate = bytes as f64 / median.as_secs_f64() / 1e9;
                println!(
                    "opencl:{device} {name:<34} {case:<13} {:>4} MiB {rate:6.2} GB/s",
                    bytes >> 20
                );
            }
        }
    }
    Ok(())
}

/// Answers `DEVICE CASE BYTES` with seconds, until the input ends.
fn serve(plugin: &OpenCl) -> Result<(), Error> {
    let mut kept = HashMap::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut words = line.split_whitespace();
        let (Some(device), Some(case), Some(bytes)) = (
            words.next().and_then(|word| word.parse().ok()),
            words.next(),
            words.next().and_then(|word| word.parse().ok()),
        ) else {
            continue;
        };
        let work = match kept.entry((device, bytes)) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(Work::new(plugin, device, bytes)?)
            }
        };
        println!("{}", work.run(case)?.as_secs_f64());
        // A reader that is gone ends the input as well.
        drop(std::io::stdout().flush());
    }
    Ok(())
}

/// Memory of one size on both sides.
struct Work<'a> {
    plugin: &'a OpenCl,
    device: u32,
    host: Vec<u8>,
    memory: Address,
}

impl<'a> Work<'a> {
    fn new(plugin: &'a OpenCl, device: u32, bytes: usize) -> Result<Self, Error> {
        let mut host = Vec::with_capacity(bytes);
        ask_for_huge_pages(&host);
        host.extend((0..=250_u8).cycle().take(bytes));
        let mut made = Self {
            plugin,
            device,
            host,
            memory: Address::default(),
        };
        made.memory = made.allocate()?;
        made.upload(made.memory)?;
        Ok(made)
    }

    fn run(&mut self, case: &str) -> Result<Duration, Error> {
        let start = Instant::now();
        match case {
            "download" => self.download()?,
            "upload" => self.upload(self.memory)?,
            // As a tensor that moves to a device and dies there.
            _ => {
                let fresh = self.allocate()?;
                self.upload(fresh)?;
                // SAFETY: the copy is done, and nobody else knows the memory.
                unsafe { self.plugin.free(fresh, MemoryKind::DEVICE) }?;
            }
        }
        Ok(start.elapsed())
    }

    fn allocate(&self) -> Result<Address, Error> {
        self.plugin.allocate(AllocateArgs {
            size: self.host.len() as u64,
            alignment: 256,
            kind: MemoryKind::DEVICE,
            device: self.device,
        })
    }

    fn upload(&self, memory: Address) -> Result<(), Error> {
        let args = CopyArgs {
            dst: self.on_device(memory),
            src: host_side(self.host.as_ptr()),
            bytes: self.host.len() as u64,
        };
        // SAFETY: both sides have that many bytes; the copy is done on return.
        unsafe { self.plugin.copy(args, StreamHandle::NONE) }
    }

    fn download(&mut self) -> Result<(), Error> {
        let args = CopyArgs {
            dst: host_side(self.host.as_mut_ptr()),
            src: self.on_device(self.memory),
            bytes: self.host.len() as u64,
        };
        // SAFETY: both sides have that many bytes; the copy is done on return.
        unsafe { self.plugin.copy(args, StreamHandle::NONE) }
    }

    const fn on_device(&self, address: Address) -> Side {
        Side {
            address,
            kind: MemoryKind::DEVICE,
            device: self.device,
        }
    }
}

/// NumPy does so for its arrays, and the comparison has to be fair.
fn ask_for_huge_pages(untouched: &Vec<u8>) {
    let start = untouched.as_ptr();
    let gap = start.align_offset(4096);
    if let Some(length) = untouched.capacity().checked_sub(gap) {
        let page = start.wrapping_add(gap).cast_mut();
        // SAFETY: `madvise` needs a range of ours: whole pages inside the vector. No byte changes.
        unsafe { libc::madvise(page.cast(), length & !4095, libc::MADV_HUGEPAGE) };
    }
}

fn host_side(start: *const u8) -> Side {
    Side {
        address: Address::pointer(start.expose_provenance() as u64),
        kind: MemoryKind::HOST,
        device: 0,
    }
}
