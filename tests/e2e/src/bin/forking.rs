//! A program whose children open plugins anew, and use what they inherited: `forking SCENARIO PLUGIN..`.
//!
//! Each process ends by the end of `main`, with code 0 when all went well, and with a text and code 3
//! otherwise. The plugins that are named after `--driver` start one.
#![expect(unsafe_code, reason = "forks")]
#![expect(
    clippy::print_stderr,
    clippy::exit,
    reason = "a child says what went wrong, and ends as processes do"
)]

use std::path::Path;
use std::process::ExitCode;

use crossdock::{CostCache, Device, Error, RouteChoice, Runtime, RuntimeBuilder, Tensor};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{self, DeviceType, Dtype, Layout};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The files of plugins, without and with a driver.
struct Files {
    plain: Vec<String>,
    driver: Vec<String>,
}

fn main() -> ExitCode {
    // A hang is an end by SIGALRM.
    // SAFETY: it only starts a timer.
    unsafe { libc::alarm(30) };
    let mut arguments = std::env::args().skip(1);
    let scenario = arguments.next().unwrap_or_default();
    let plain = arguments.by_ref().take_while(|word| word != "--driver");
    let plain = plain.collect();
    let driver = arguments.collect();
    let files = Files { plain, driver };
    let outcome = match scenario.as_str() {
        "anew" => anew(&files),
        "found" => found(&files),
        "unopened" => unopened(&files),
        _ => Err("unknown scenario".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{scenario}: {error}");
            ExitCode::from(3)
        }
    }
}

/// Forks. The child does `in_child` and ends, its parent waits for a good end.
fn in_a_child(in_child: impl FnOnce() -> Outcome) -> Outcome {
    // SAFETY: this program has no other thread, so the child may do what it likes.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it only starts a timer.
        unsafe { libc::alarm(20) };
        let ended = in_child();
        if let Err(error) = &ended {
            eprintln!("in the child: {error}");
        }
        std::process::exit(if ended.is_ok() { 0 } else { 3 });
    }
    let mut status = 0;
    // SAFETY: `status` is ours.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    if (ended, status) == (child, 0) {
        return Ok(());
    }
    Err(format!("the child ended with status {status:#x}").into())
}

fn opened() -> Result<Runtime, Error> {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    builder.open()
}

fn bytes_of(count: usize) -> Result<Layout, Error> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Ok(Layout::compact(Dtype::UINT8, &[count])?)
}

/// Moves bytes to every device of a runtime and back.
fn use_all(runtime: &Runtime) -> Outcome {
    let cpu = runtime.device(dlpack::Device::CPU)?;
    let bytes: Vec<u8> = (0..=255).collect();
    for device in runtime.devices() {
        let there = Tensor::from_bytes(&device, &bytes_of(256)?, &bytes)?;
        let (back, _) = there.to(&cpu, RouteChoice::Best)?;
        if back.read()? != bytes {
            return Err(format!("{device} has other bytes").into());
        }
    }
    Ok(())
}

fn is_refused<T>(result: Result<T, Error>) -> Outcome {
    let Err(error) = result else {
        return Err("it was opened in the child".into());
    };
    let text = format!("{error}: {} ({})", error.why(), error.hint());
    if error.status() == Some(Status::FORKED) && text.contains("spawn") {
        return Ok(());
    }
    Err(format!("not told to spawn: {text}").into())
}

/// A child opens plugins without a driver anew, and is told of those whose driver its parent has
/// started; so is the child of a child.
fn anew(files: &Files) -> Outcome {
    let runtime = opened()?;
    for file in files.plain.iter().chain(&files.driver) {
        runtime.load(file.as_ref())?;
    }
    use_all(&runtime)?;
    let again = || -> Result<Runtime, Box<dyn std::error::Error>> {
        let own = opened()?;
        for file in &files.plain {
            own.load(file.as_ref())?;
        }
        for file in &files.driver {
            is_refused(own.load(file.as_ref()))?;
        }
        use_all(&own)?;
        Ok(own)
    };
    in_a_child(|| {
        let own = again()?;
        in_a_child(|| again().map(drop))?;
        use_all(&own)
    })?;
    // The plugins may be closed before the fork, but their drivers run on.
    drop(runtime);
    in_a_child(|| again().map(drop))
}

/// Where a search finds a plugin whose driver the parent has started, the child opens without it, and
/// is told so by who asks for its devices.
fn found(files: &Files) -> Outcome {
    let search = || {
        let folders = files
            .driver
            .iter()
            .filter_map(|file| Path::new(file).parent());
        let builder = Runtime::builder().search(false).costs(CostCache::Off);
        folders.fold(builder, RuntimeBuilder::plugin_dir).open()
    };
    let runtime = search()?;
    let cpu = DeviceType::CPU;
    let of_driver = |runtime: &Runtime| {
        runtime
            .devices()
            .iter()
            .map(Device::id)
            .find(|id| id.ty != cpu)
    };
    let id = of_driver(&runtime).ok_or("no device has a driver")?;
    in_a_child(|| {
        let own = search()?;
        if let Some(id) = of_driver(&own) {
            return Err(format!("{id} is in the child").into());
        }
        is_refused(own.device(id))?;
        use_all(&own)
    })
}

/// A driver that only the child starts works there.
fn unopened(files: &Files) -> Outcome {
    use_all(&opened()?)?;
    in_a_child(|| {
        let own = opened()?;
        for file in &files.driver {
            own.load(file.as_ref())?;
        }
        use_all(&own)
    })
}
