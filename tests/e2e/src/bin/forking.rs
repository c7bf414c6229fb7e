//! A program whose children open plugins anew, and use what they inherited: `forking SCENARIO PLUGIN..`.
//!
//! Each process ends by the end of `main`, with code 0 when all went well, and with a text and code 3
//! otherwise. The plugins that are named after `--driver` start one.
#![expect(unsafe_code, reason = "forks")]
#![expect(
    clippy::print_stderr,
    clippy::exit,
    clippy::unwrap_used,
    reason = "a child says what went wrong, and ends as processes do"
)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crossdock::{
    CostCache, Device, Error, RouteChoice, RouteKind, Runtime, RuntimeBuilder, Stream, Tensor,
    counted_leaks,
};
use crossdock_e2e::lending::{ALL, filled, held, lent, status, writable};
use crossdock_e2e::outsiders::import;
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
        "claims" => claims(&files),
        "inherited" => inherited(&files),
        "at-work" => at_work(&files),
        "amid" => amid(&files),
        "unopened" => unopened(&files),
        "unnoticed" => unnoticed(&files),
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

/// A runtime that finds the plugins with drivers in its search.
fn search(files: &Files) -> Result<Runtime, Error> {
    let drivers = files.driver.iter();
    let folders = drivers.filter_map(|file| Path::new(file).parent());
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    folders.fold(builder, RuntimeBuilder::plugin_dir).open()
}

/// What a driver may have a share in that cannot be asked in the child, stays the parent's. The plugin has
/// `cuda` devices.
fn claims(files: &Files) -> Outcome {
    let cuda = DeviceType::CUDA.device(0);
    let (runtime, bytes) = (search(files)?, [[7; 64]; 2]);
    let tensor = |bytes| import(&runtime, bytes, dlpack::Device::CPU);
    let (used, unused) = (tensor(&bytes[0])?, tensor(&bytes[1])?);
    in_a_child(|| {
        assert_eq!(status(&runtime.device(cuda)), Some(Status::FORKED));
        assert!(runtime.device(DeviceType::VPI.device(0)).is_err());
        assert!(unused.read()? == [7; 64]);
        Ok(())
    })?;
    runtime.device(cuda)?;
    used.read()?;
    in_a_child(|| {
        let own = search(files)?;
        assert!(used.read()? == [7; 64]);
        for _ in 0..2 {
            assert_eq!(status(&unused.read()), Some(Status::FORKED));
        }
        is_refused(import(&own, &bytes[0], DeviceType::CUDA_HOST.device(0)))?;
        assert!(import(&own, &bytes[0], dlpack::Device::CPU)?.read()? == [7; 64]);
        Ok(())
    })?;
    assert!(unused.read()? == [7; 64]);
    Ok(())
}

/// Where a search finds a plugin whose driver the parent has started, the child opens without it, and
/// is told so by who asks for its devices.
fn found(files: &Files) -> Outcome {
    let search = || search(files);
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

/// Memory of each kind that the host has, with all bytes alike.
fn host_tensors(runtime: &Runtime) -> Vec<(Tensor, Arc<AtomicBool>)> {
    let devices = runtime.devices();
    let mut tensors: Vec<_> = devices
        .iter()
        .map(|device| (filled(device, 7), Arc::default()))
        .collect();
    // A view through the CPU of memory that another plugin allocated.
    let cpu = runtime.device(dlpack::Device::CPU).unwrap();
    for (there, _) in tensors.clone() {
        if let Ok((alias, _)) = there.to(&cpu, RouteChoice::Only(RouteKind::Alias)) {
            tensors.push((alias, Arc::default()));
        }
    }
    let of_others = writable(runtime);
    of_others.0.fill(&[7], None).unwrap();
    tensors.extend([lent(runtime, None), of_others]);
    tensors
}

/// What a child may do with memory of others on its own `cpu:0`.
fn use_inherited(own: &Runtime, tensor: &Tensor) {
    let cpu = own.device(dlpack::Device::CPU).unwrap();
    assert_eq!(tensor.device(), &cpu);
    assert!(tensor.read().unwrap() == [7; ALL]);
    let turned = tensor.reshape(&[64, 64]).unwrap().permute(&[1, 0]).unwrap();
    assert!(turned.read().unwrap() == [7; ALL]);
    let managed = turned.export().unwrap().into_raw();
    // SAFETY: a live tensor of this library's own making, given up here.
    let back = unsafe { Tensor::import_managed(own, managed) }.unwrap();
    assert!(back.read().unwrap() == [7; ALL]);
    let (alias, route) = tensor.to(&cpu, RouteChoice::Best).unwrap();
    assert_eq!(
        (route.kind, alias.address()),
        (RouteKind::Alias, tensor.address())
    );
    for device in own.devices() {
        let (copy, _) = turned.to(&device, RouteChoice::Copy).unwrap();
        assert!(copy.read().unwrap() == [7; ALL]);
        copy.copy_from(&tensor.reshape(&[64, 64]).unwrap(), None)
            .unwrap();
    }
    if tensor.is_read_only() {
        return;
    }
    tensor.write(&[2; ALL]).unwrap();
    assert!(alias.read().unwrap() == [2; ALL]);
    // All handles of it come after each other's work.
    let (stream, host_event) = held(&cpu);
    turned
        .copy_from(&filled(&cpu, 3).reshape(&[64, 64]).unwrap(), Some(&stream))
        .unwrap();
    assert!(tensor.try_export().unwrap().is_none());
    host_event.complete(Status::OK).unwrap();
    assert!(tensor.read().unwrap() == [3; ALL]);
    tensor.fill(&[7], None).unwrap();
}

/// Inherited host memory is memory of others on the child's `cpu:0`, its own child's too; nothing of it
/// is given back there, and the parent's own stays as it is.
fn inherited(files: &Files) -> Outcome {
    let runtime = opened()?;
    for file in &files.plain {
        runtime.load(file.as_ref())?;
    }
    let mut tensors = host_tensors(&runtime);
    in_a_child(|| {
        let own = opened()?;
        for file in &files.plain {
            own.load(file.as_ref())?;
        }
        for (tensor, _) in &tensors {
            use_inherited(&own, tensor);
        }
        in_a_child(|| {
            let own = opened()?;
            for (tensor, _) in &tensors {
                use_inherited(&own, tensor);
            }
            for (tensor, _) in tensors.iter().filter(|(tensor, _)| !tensor.is_read_only()) {
                tensor.fill(&[9], None)?;
            }
            Ok(())
        })?;
        let before = counted_leaks();
        for (tensor, is_back) in std::mem::take(&mut tensors) {
            use_inherited(&own, &tensor);
            drop(tensor);
            assert!(!is_back.load(Ordering::SeqCst));
        }
        assert!(counted_leaks() > before);
        Ok(())
    })?;
    for (tensor, _) in &tensors {
        assert!(tensor.read()? == [7; ALL]);
    }
    Ok(())
}

/// What may have been running on memory at the fork is not the child's to use; what was known to be
/// over is.
fn at_work(files: &Files) -> Outcome {
    let runtime = opened()?;
    for file in &files.plain {
        runtime.load(file.as_ref())?;
    }
    let cpu = runtime.device(dlpack::Device::CPU)?;
    let (stream, host_event) = held(&cpu);
    let (written, read, done, untouched) = (
        filled(&cpu, 7),
        filled(&cpu, 7),
        filled(&cpu, 0),
        filled(&cpu, 7),
    );
    let mut busy = vec![written.clone(), written.reshape(&[64, 64])?, read.clone()];
    written.fill(&[7], Some(&stream))?;
    let (copy, _) = read.to_on(&cpu, RouteChoice::Copy, &stream)?;
    busy.push(copy);
    for (there, _) in host_tensors(&runtime) {
        // Through one name of the memory, and used by another.
        if *there.device() != cpu
            && let Ok((alias, _)) = there.to(&cpu, RouteChoice::Only(RouteKind::Alias))
        {
            alias.used_on(&stream)?;
            busy.extend([there, alias]);
        }
    }
    let other = Stream::new(&cpu)?;
    done.fill(&[7], Some(&other))?;
    let (_copy, _) = done.to_on(&cpu, RouteChoice::Copy, &other)?;
    other.synchronize(None)?;
    // What read it is over too, and is not asked about in the child.
    done.synchronize(None)?;
    in_a_child(|| {
        let own = opened()?;
        for tensor in [&untouched, &done] {
            use_inherited(&own, tensor);
        }
        let cpu = own.device(dlpack::Device::CPU)?;
        for tensor in &busy {
            let whole = tensor.reshape(&[4096])?;
            let answers = [
                status(&tensor.read()),
                status(&whole.write(&[2; ALL])),
                status(&tensor.export()),
                status(&tensor.to(&cpu, RouteChoice::Copy)),
                status(&filled(&cpu, 7).copy_from(&whole, None)),
                status(&whole.fill(&[2], None)),
            ];
            assert_eq!(answers, [Some(Status::FORKED); 6]);
        }
        drop(busy);
        Ok(())
    })?;
    host_event.complete(Status::OK)?;
    assert!(written.read()? == [7; ALL]);
    Ok(())
}

/// Children that are forked off amid the work of other threads wait for none of them.
fn amid(files: &Files) -> Outcome {
    let runtime = opened()?;
    for file in &files.plain {
        runtime.load(file.as_ref())?;
    }
    let tensors = host_tensors(&runtime);
    let is_over = AtomicBool::new(false);
    let work = || {
        let cpu = runtime.device(dlpack::Device::CPU).unwrap();
        let stream = Stream::new(&cpu).unwrap();
        while !is_over.load(Ordering::Relaxed) {
            use_all(&opened().unwrap()).unwrap();
            for (tensor, _) in &tensors {
                tensor.used_on(&stream).unwrap();
                let (copy, _) = tensor.to_on(&cpu, RouteChoice::Copy, &stream).unwrap();
                copy.read().unwrap();
            }
            drop(lent(&runtime, None));
        }
    };
    std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        let mut children = (0..20).map(|_| {
            in_a_child(|| {
                let own = opened()?;
                for file in &files.plain {
                    own.load(file.as_ref())?;
                }
                for (tensor, _) in &tensors {
                    // It may have been read at the fork.
                    match tensor.read() {
                        Ok(bytes) => assert!(bytes == [7; ALL]),
                        answer => assert_eq!(status(&answer), Some(Status::FORKED)),
                    }
                }
                use_all(&own)
            })
        });
        let failed = children.find(Result::is_err);
        is_over.store(true, Ordering::Relaxed);
        drop(workers);
        failed.unwrap_or(Ok(()))
    })
}

/// What happens while this process forks, once.
static AMID_FORK: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();

/// Lets the other thread begin, and waits until it is in the plugin's entry.
extern "C" fn amid_fork() {
    if let Some((begin, inside)) = AMID_FORK.get() {
        File::from(begin.try_clone().unwrap())
            .write_all(&[1])
            .unwrap();
        File::from(inside.try_clone().unwrap())
            .read_exact(&mut [0])
            .unwrap();
    }
}

fn pipe() -> Result<(File, File), std::io::Error> {
    let (read, write) = std::io::pipe()?;
    Ok((OwnedFd::from(read).into(), OwnedFd::from(write).into()))
}

/// Another thread opens the first runtime of the process while it is forked, too late for the fork to be
/// noticed in the child, and is amid a load there. The child loads the same file.
fn unnoticed(files: &Files) -> Outcome {
    let [plugin] = files.plain.as_slice() else {
        return Err("one plugin is needed".into());
    };
    let (may_begin, begin) = pipe()?;
    let (is_inside, inside) = pipe()?;
    let (may_go_on, go_on) = pipe()?;
    let load = || -> Result<(), Error> {
        let runtime = opened()?;
        runtime.load(plugin.as_ref()).map(drop)
    };
    let held = format!("{},{}", inside.as_raw_fd(), may_go_on.as_raw_fd());
    // SAFETY: this program has no other thread yet.
    unsafe { std::env::set_var("HELD_AT_ENTRY", held) };
    AMID_FORK.set((begin.into(), is_inside.into())).unwrap();
    // SAFETY: the function takes nothing, and is there until the end.
    let registered = unsafe { libc::pthread_atfork(Some(amid_fork), None, None) };
    assert_eq!(registered, 0);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            (&may_begin).read_exact(&mut [0]).unwrap();
            load()
        });
        let child = in_a_child(|| {
            // SAFETY: the child has no other thread.
            unsafe { std::env::remove_var("HELD_AT_ENTRY") };
            Ok(load()?)
        });
        (&go_on).write_all(&[1])?;
        other.join().unwrap()?;
        child
    })
}
