//! A device is lost on each way of an exchange: the error says which device and which call noticed, what the device
//! no longer does for the host is done, and all other devices go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossdock::{Device, Error, Event, RouteChoice, RouteKind, Stream, Tensor, counted_leaks};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::driver::Driver;
use crate::exchanges::{EXCHANGES, Foreign, LIMIT, Rig, round, use_of};
use crate::{POLICIES, is_long, run_over};

const BYTES: usize = 4096;

/// Where a device is lost, the exchange, the fault and the device.
const LOSSES: [(&str, &str, &str, usize); 13] = [
    (
        "at the source",
        "staged",
        "dev0:exec:cuMemcpyDtoHAsync_v2@1=719!",
        0,
    ),
    (
        "at the destination",
        "staged",
        "dev1:exec:cuMemcpyHtoDAsync_v2@1=700!",
        1,
    ),
    (
        "in the middle of a staged copy",
        "staged",
        "dev1:exec:cuMemcpyHtoDAsync_v2@3=719!",
        1,
    ),
    ("at a peer copy", "link", "exec:cuMemcpyPeerAsync@5=719!", 1),
    (
        "at a peer copy that is refused",
        "link",
        "dev1:cuMemcpyPeerAsync@1=700!",
        1,
    ),
    (
        "in the wait of an import",
        "import",
        "cuStreamWaitEvent@1=719!",
        0,
    ),
    ("in an export", "export", "cuStreamWaitEvent@1=700!", 0),
    ("in a free", "free", "cuMemFreeAsync@1=719!", 0),
    (
        "at a host function",
        "export",
        "dev0:cuLaunchHostFunc@1=719!",
        0,
    ),
    (
        "in a host function's turn",
        "export",
        "dev0:exec:cuLaunchHostFunc@1=700!",
        0,
    ),
    (
        "at the host function of a release",
        "export",
        "cuLaunchHostFunc@2=700!",
        0,
    ),
    ("in a fill", "fill", "exec:cuMemsetD8Async@1=719!", 0),
    (
        "in an allocation",
        "direct",
        "dev0:cuMemAllocFromPoolAsync@1=700!",
        0,
    ),
];

/// Memory of somebody who notes that it was given back.
struct Lent(Vec<u8>, Arc<AtomicBool>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.1.store(true, Ordering::SeqCst);
    }
}

const LOSS: &str = "CROSSDOCK_LOSS";

#[test]
fn a_device_that_is_lost_on_any_way_is_told_and_the_others_go_on() {
    let name = "losses::a_device_that_is_lost_on_any_way_is_told_and_the_others_go_on";
    if let Ok(number) = std::env::var(LOSS) {
        lose(&Driver::open(), LOSSES[number.parse::<usize>().unwrap()]);
        return;
    }
    for (number, loss) in LOSSES.iter().enumerate() {
        // Each in one order, and in all of them where there is time.
        let policies = POLICIES.iter().enumerate();
        for (_, policy) in policies.filter(|(at, _)| is_long() || *at == number % 3) {
            let number = number.to_string();
            let Some((code, told)) = run_over(name, policy, &[(LOSS, &number)]) else {
                return;
            };
            assert_eq!(code, Some(0), "{loss:?}, {policy:?}: {told}");
        }
    }
}

const IS_INSIDE: &str = "CROSSDOCK_LOSES";

/// Loses a device in a process of its own, by each policy. What is reported there is the loss's.
fn in_each_policy(name: &str, lose: fn(&Driver)) {
    if std::env::var_os(IS_INSIDE).is_some() {
        return lose(&Driver::open());
    }
    for policy in POLICIES {
        let Some((code, told)) = run_over(name, policy, &[(IS_INSIDE, "1")]) else {
            return;
        };
        assert_eq!(code, Some(0), "{policy:?}: {told}");
    }
}

#[test]
fn a_stream_of_a_lost_device_takes_no_other_device_with_it() {
    let name = "losses::a_stream_of_a_lost_device_takes_no_other_device_with_it";
    in_each_policy(name, lose_the_stream);
}

/// A tensor of one device is filled on a stream of the other one, which is lost by that.
fn lose_the_stream(driver: &Driver) {
    let foreign = Foreign::new(driver);
    let rig = Rig::open_with_others(&foreign).unwrap();
    let [well, lost, ..] = rig.cuda.as_slice() else {
        panic!("two devices");
    };
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let tensor = Tensor::empty(well, &layout).unwrap();
    let stream = Stream::new(lost).unwrap();
    tensor.fill(&[7], Some(&stream)).unwrap();
    stream.synchronize(LIMIT).unwrap();
    driver.arm("cuEventRecord@1=719!");
    let refused = tensor.fill(&[1], Some(&stream)).unwrap_err();
    assert_eq!(driver.disarm(), 1, "nothing was lost");
    names_the_loss(&refused, "a fill", "=719!", lost);
    let again = tensor.fill(&[1], Some(&stream)).unwrap_err();
    let why = again.why();
    assert!(why.contains(&format!("`{lost}` was lost; ")), "{why}");
    let mut others = vec![well];
    others.extend(&rig.others);
    round(&rig, &others).unwrap();
    // Nobody can tell the end of what the lost device was doing.
    driver.take_reports();
    let _left = std::mem::ManuallyDrop::new(rig);
}

#[test]
fn a_stream_of_another_plugin_hears_of_a_loss_that_nobody_else_asks_for() {
    let name = "losses::a_stream_of_another_plugin_hears_of_a_loss_that_nobody_else_asks_for";
    in_each_policy(name, lose_what_another_plugin_waits_for);
}

/// The device is lost as work runs, so the driver never calls the function that is to let the other stream go on, and
/// no call of the program reaches the device any more.
fn lose_what_another_plugin_waits_for(driver: &Driver) {
    let foreign = Foreign::new(driver);
    let rig = Rig::open_with_others(&foreign).unwrap();
    let lost = &rig.cuda[0];
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let tensor = Tensor::empty(lost, &layout).unwrap();
    let (stream, gate) = (Stream::new(lost).unwrap(), Event::host(lost).unwrap());
    let waiting = Stream::new(&rig.others[0]).unwrap();
    stream.wait(&gate).unwrap();
    driver.arm("exec:cuMemsetD8Async@1=719!");
    tensor.fill(&[1], Some(&stream)).unwrap();
    waiting.wait(&stream.record().unwrap()).unwrap();
    gate.complete(Status::OK).unwrap();
    let told = waiting.synchronize(LIMIT).unwrap_err();
    assert_eq!(
        told.status(),
        Some(Status::DEVICE_LOST),
        "{told}: {}",
        told.why()
    );
    assert_eq!(driver.disarm(), 1, "nothing was lost");
    driver.take_reports();
    let _left = std::mem::ManuallyDrop::new(rig);
}

/// Demands that an error names the device, the call that lost it, and the driver's code.
fn names_the_loss(error: &Error, place: &str, fault: &str, lost: &Device) {
    let code = fault.rsplit('=').next().unwrap().trim_end_matches('!');
    let told = format!("{place}: {error}: {}", error.why());
    let is_named = told.contains(&format!("device {} is lost: `cu", lost.index()));
    let returned = format!("` returned {code} (");
    assert!(is_named && told.contains(&returned), "{told}");
}

fn lose(driver: &Driver, (place, exchange, fault, device): (&str, &str, &str, usize)) {
    let foreign = Foreign::new(driver);
    let rig = Rig::open_with_others(&foreign).unwrap();
    let (lost, other) = (&rig.cuda[device], &rig.cuda[1 - device]);
    // What only a function on a stream of the device would give back.
    let is_back = Arc::<AtomicBool>::default();
    let lent = Lent(vec![7; BYTES], Arc::clone(&is_back));
    let layout = Layout::compact(Dtype::UINT8, &[i64::try_from(BYTES).unwrap()]).unwrap();
    let lent = Tensor::from_host_memory(&rig.runtime, Box::new(lent), 0, &layout).unwrap();
    let (held, gate) = (Stream::new(lost).unwrap(), Event::host(lost).unwrap());
    held.wait(&gate).unwrap();
    let direct = RouteChoice::Only(RouteKind::Direct);
    let (there, _) = lent.to_on(lost, direct, &held).unwrap();
    drop(lent);
    let leaks = counted_leaks();
    driver.arm(fault);
    let (_, make) = EXCHANGES
        .iter()
        .find(|(name, _)| *name == exchange)
        .unwrap();
    let done = make(&rig);
    let lost_by = driver.disarm();
    // Work that is over by the time that others ask for it is waited for by no call.
    let is_pending = std::env::var("CROSSDOCK_SIM")
        .unwrap()
        .contains("policy=lazy");
    if lost_by == 0 && !is_pending {
        gate.complete(Status::OK).unwrap();
        return println!("{place}: no call of that name was needed");
    }
    assert_eq!(lost_by, 1, "{place}: nothing was lost");
    // A loss that a give-back met is found by the next call.
    let errors = [done.err(), use_of(lost).err(), use_of(lost).err()];
    errors
        .iter()
        .flatten()
        .for_each(|error| names_the_loss(error, place, fault, lost));
    let error = use_of(lost).unwrap_err();
    assert_eq!(
        error.status(),
        Some(Status::DEVICE_LOST),
        "{place}: {}",
        error.why()
    );
    assert!(
        error.why().contains(&format!("`{lost}` was lost; ")),
        "{place}: {}",
        error.why()
    );
    gate.complete(Status::OK).unwrap();
    drop((there, held, gate));
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    let is_told = is_back.load(Ordering::SeqCst) || counted_leaks() > leaks;
    assert!(
        is_told,
        "{place}: lent memory is neither given back nor counted"
    );
    let mut well = vec![other];
    well.extend(&rig.others);
    round(&rig, &well).unwrap();
    // The checker waits for the end of what the lost device was doing, which nobody can tell.
    driver.take_reports();
    // Nothing that is left of it keeps the process from ending.
    let _left = std::mem::ManuallyDrop::new(rig);
}
