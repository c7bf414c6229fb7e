//! Forks, exits and lost devices, where a process has both vendors' libraries.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use crossdock::{
    Device, Error, Event, RouteChoice, RouteKind, Runtime, Stream, Target, Tensor, counted_leaks,
};
use crossdock_sdk::abi::{MemoryKind, Status};
use crossdock_sdk::fence::fence;

use super::{BYTES, Both, LIMIT, ORDERS, PART, Simulator, both_are_built, content, layout};
use crate::{is_inside, is_long, over, run_over};

const STAGED: RouteChoice = RouteChoice::Only(RouteKind::Staged);

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn exit(code: c_int) -> !;
    fn _exit(code: c_int) -> !;
}

pub(super) const RUNS: [&[&str]; 3] = [
    &["--cuda", "1", "--rocm", "1", "--policy", "lazy"],
    &["--cuda", "1", "--rocm", "1", "--policy", "seeded"],
    &["--cuda", "1", "--rocm", "1", "--policy", "threads"],
];

/// A tensor goes to the other vendor and comes back.
fn round(here: &Device, there: &Device, seed: usize) -> Result<(), Error> {
    let wanted = content(BYTES, seed);
    let tensor = Tensor::from_bytes(here, &layout(BYTES), &wanted)?;
    let stream = Stream::new(there)?;
    let (moved, _) = tensor.to(there, STAGED)?;
    let (back, _) = moved.to_on(here, STAGED, &stream)?;
    let pinned = Target::new(there, MemoryKind::PINNED);
    let (pinned, _) = back.move_to(&pinned, RouteChoice::Copy, Some(&stream))?;
    assert!(pinned.read()? == wanted);
    Ok(())
}

/// The exit code of a child that does this.
fn in_a_child(work: impl FnOnce()) -> c_int {
    // SAFETY: the child runs `work` and ends without anything else of this process.
    let child = unsafe { fork() };
    if child == 0 {
        let done = fence(work);
        // SAFETY: it ends the child.
        unsafe { _exit(c_int::from(done.is_none())) }
    }
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: it is a child of this process, and the place is this function's own.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    status
}

/// A child of a fork can use neither vendor, and has the host.
fn is_refused_in_a_child(both: &Both, tensors: &[Tensor]) {
    for (tensor, to) in tensors.iter().zip([&both.rocm, &both.cuda]) {
        let failures = [
            tensor.read().err(),
            tensor.to(to, STAGED).err(),
            tensor.to(to, RouteChoice::Best).err(),
            tensor.fill(&[1], None).err(),
            Tensor::empty(to, &layout(BYTES)).err(),
            Stream::new(to).err(),
        ];
        for failure in failures {
            let failure = failure.unwrap();
            let told = format!("{failure}: {}", failure.why());
            assert!(told.contains("fork"), "{told}");
        }
    }
    let own = Runtime::builder().search(false).open().unwrap();
    let cpu = own.device("cpu:0".parse().unwrap()).unwrap();
    let wanted = content(BYTES, 9);
    let tensor = Tensor::from_bytes(&cpu, &layout(BYTES), &wanted).unwrap();
    assert!(tensor.read().unwrap() == wanted);
}

#[test]
fn a_child_of_a_fork_has_neither_vendor_and_the_parent_keeps_both() {
    let name = "vendors::ends::a_child_of_a_fork_has_neither_vendor_and_the_parent_keeps_both";
    if !both_are_built() || !over(name, &RUNS) {
        return;
    }
    for order in ORDERS {
        fork_amid_copies(&Both::in_order(order));
    }
}

/// Forks while threads copy both ways.
fn fork_amid_copies(both: &Both) {
    let tensor = |device| Tensor::from_bytes(device, &layout(BYTES), &content(BYTES, 5)).unwrap();
    let tensors = [tensor(&both.cuda), tensor(&both.rocm)];
    let is_over = AtomicBool::new(false);
    let copy = &|[here, there]: [&Device; 2]| {
        while !is_over.load(Ordering::Relaxed) {
            round(here, there, 6).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for ends in both.directions() {
            scope.spawn(move || copy(ends));
        }
        let codes = [(); 4].map(|()| in_a_child(|| is_refused_in_a_child(both, &tensors)));
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(codes, [0; 4]);
    });
    for [here, there] in both.directions() {
        round(here, there, 7).unwrap();
    }
}

#[test]
fn a_process_ends_while_work_of_both_vendors_is_pending() {
    let name = "vendors::ends::a_process_ends_while_work_of_both_vendors_is_pending";
    if !is_inside(name) {
        for (options, order) in RUNS
            .iter()
            .flat_map(|run| ["0", "1"].map(|order| (run, order)))
        {
            let words = [(ORDER, order)];
            let Some((code, told)) = run_over(name, options, &words).filter(|_| both_are_built())
            else {
                return;
            };
            assert_eq!(code, Some(0), "{options:?}, {order}:\n{told}");
            assert!(told.contains(LAST_WORDS), "{options:?}, {order}:\n{told}");
        }
        return;
    }
    let order = std::env::var(ORDER).unwrap().parse::<usize>().unwrap();
    let order = ORDERS[order];
    let both: &'static Both = Box::leak(Box::new(Both::in_order(order)));
    for [from, to] in both.directions() {
        round(from, to, 8).unwrap();
        // Threads are amid staged copies, both ways.
        std::thread::spawn(move || while round(from, to, 10).is_ok() {});
    }
    let held = both.directions().map(|[from, to]| {
        let pinned = Tensor::empty_of(from, &layout(BYTES), MemoryKind::PINNED).unwrap();
        (
            pinned,
            Event::host(from).unwrap(),
            [from, to].map(|device| Stream::new(device).unwrap()),
        )
    });
    for ((pinned, gate, [writer, reader]), [_, to]) in held.iter().zip(both.directions()) {
        // From here on other streams may stand behind this one.
        writer.wait(gate).unwrap();
        pinned.fill(&[3], Some(writer)).unwrap();
        reader.wait(&writer.record().unwrap()).unwrap();
        Tensor::empty(to, &layout(BYTES))
            .unwrap()
            .fill(&[4], Some(reader))
            .unwrap();
    }
    println!("{LAST_WORDS}");
    // SAFETY: it ends the process, with all that is registered for that.
    unsafe { exit(0) };
}

const ORDER: &str = "CROSSDOCK_ORDER";
const LAST_WORDS: &str = "the process ends";

/// Which device is lost, and by which of its operations. The simulator counts ROCm's devices behind CUDA's.
const LOSSES: [(&str, &str); 4] = [
    ("cuda:0", "dev0:exec:cuMemcpyDtoHAsync_v2@3=719!"),
    ("cuda:0", "dev0:exec:cuMemcpyHtoDAsync_v2@2=700!"),
    ("rocm:0", "dev2:exec:hipMemcpyAsync@3=719!"),
    ("rocm:0", "dev2:exec:hipMemcpyAsync@9=700!"),
];
const LOSS: &str = "CROSSDOCK_LOSS";

#[test]
fn one_vendor_goes_on_where_a_device_of_the_other_is_lost_amid_a_staged_copy() {
    let name =
        "vendors::ends::one_vendor_goes_on_where_a_device_of_the_other_is_lost_amid_a_staged_copy";
    if let Ok(number) = std::env::var(LOSS) {
        return lose(LOSSES[number.parse::<usize>().unwrap()]);
    }
    for (number, loss) in LOSSES.iter().enumerate() {
        let policies = ["lazy", "seeded", "threads"].into_iter().enumerate();
        for (_, policy) in policies.filter(|(at, _)| is_long() || *at == number % 3) {
            let options = ["--cuda", "2", "--rocm", "2", "--policy", policy];
            let number = number.to_string();
            let ran = run_over(name, &options, &[(LOSS, &number)]).filter(|_| both_are_built());
            let Some((code, told)) = ran else {
                return;
            };
            assert_eq!(code, Some(0), "{loss:?}, {policy}:\n{told}");
        }
    }
}

fn lose((lost, fault): (&str, &str)) {
    let (both, simulator) = (Both::open(), Simulator::find());
    let device = |name: &str| both.runtime.device(name.parse().unwrap()).unwrap();
    let (lost, others) = match lost {
        "cuda:0" => (
            &both.cuda,
            [device("cuda:1"), both.rocm.clone(), device("rocm:1")],
        ),
        _ => (
            &both.rocm,
            [both.cuda.clone(), device("cuda:1"), device("rocm:1")],
        ),
    };
    let other = if *lost == both.cuda {
        &both.rocm
    } else {
        &both.cuda
    };
    // Chunks are there that both have pinned.
    round(lost, other, 1).unwrap();
    simulator.arm(fault);
    let failures: Vec<_> = [[lost, other], [other, lost]]
        .iter()
        .filter_map(|[here, there]| round(here, there, 2).err())
        .collect();
    assert_eq!(simulator.disarm(), 1, "nothing was lost");
    for error in &failures {
        assert_eq!(
            error.status(),
            Some(Status::DEVICE_LOST),
            "{error}: {}",
            error.why()
        );
        assert!(
            error
                .why()
                .contains(&format!("device {} is lost", lost.index())),
            "{}",
            error.why()
        );
    }
    assert_eq!(failures.len(), 2);
    for here in &others {
        for there in others.iter().filter(|there| *there != here) {
            round(here, there, 3).unwrap();
        }
    }
    let gone = Tensor::empty(lost, &layout(BYTES)).unwrap_err();
    assert_eq!(gone.status(), Some(Status::DEVICE_LOST));
    both.runtime.wait_for_releases(LIMIT).unwrap();
    // The checker waits for the end of what the lost device was doing, which nobody can tell.
    simulator.take_reports();
    // Nothing that is left of it keeps the process from ending.
    let _left = std::mem::ManuallyDrop::new(both);
}

/// A device is lost by any part of a copy on a stream: its chunks stay locked, and no other copy gets them.
#[test]
fn chunks_of_a_copy_on_a_stream_stay_where_a_lost_device_may_use_them() {
    let name = "vendors::ends::chunks_of_a_copy_on_a_stream_stay_where_a_lost_device_may_use_them";
    if let Ok(fault) = std::env::var(LOSS) {
        return lose_on_a_stream(&fault);
    }
    let parts = BYTES.div_ceil(PART);
    let operations = ["dev0:exec:cuMemcpyDtoHAsync_v2", "dev1:exec:hipMemcpyAsync"];
    for (number, part) in (1..=parts).enumerate() {
        for operation in operations {
            let policy = ["lazy", "seeded", "threads"][number % 3];
            let options = ["--cuda", "1", "--rocm", "1", "--policy", policy];
            let fault = format!("{operation}@{part}=719!");
            let ran = run_over(name, &options, &[(LOSS, &fault)]).filter(|_| both_are_built());
            let Some((code, told)) = ran else {
                return;
            };
            assert_eq!(code, Some(0), "{fault}, {policy}:\n{told}");
        }
    }
}

fn lose_on_a_stream(fault: &str) {
    let (both, simulator) = (Both::open(), Simulator::find());
    let source = Tensor::from_bytes(&both.cuda, &layout(BYTES), &content(BYTES, 1)).unwrap();
    let (stream, gate) = (
        Stream::new(&both.cpu).unwrap(),
        Event::host(&both.cpu).unwrap(),
    );
    stream.wait(&gate).unwrap();
    let (moved, _) = source.to_on(&both.rocm, STAGED, &stream).unwrap();
    let (healthy, registers) = match fault.contains("hip") {
        true => (&both.cuda, "cuMemHostRegister_v2"),
        false => (&both.rocm, "hipHostRegister"),
    };
    let chunks = simulator.registered(registers);
    assert_eq!(chunks.len(), BYTES.div_ceil(PART));
    simulator.arm(fault);
    gate.complete(Status::OK).unwrap();
    let lost = moved.read().unwrap_err();
    assert_eq!(
        lost.status(),
        Some(Status::DEVICE_LOST),
        "{lost}: {}",
        lost.why()
    );
    assert_eq!(simulator.disarm(), 1, "nothing was lost");
    drop((source, moved));
    both.runtime.wait_for_releases(LIMIT).unwrap();
    assert!(counted_leaks() > 0);
    healthy.trim(0).unwrap();
    assert_eq!(simulator.registered(registers), chunks);
    // The checker waits for the end of what the lost device was doing, which is unknown.
    simulator.take_reports();
    let _left = std::mem::ManuallyDrop::new(both);
}
