//! Copies and fills that cannot be, that need nothing done, or that others make.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use crossdock::{Error, Stream, Tensor};
use crossdock_e2e::lending::{ALL, LIMIT, filled, held, is_late, lent, one_cpu};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::Layout;

fn empty(like: &Tensor, dtype: &str, shape: &[i64], padded: bool) -> Tensor {
    let layout = Layout::compact(dtype.parse().unwrap(), shape).unwrap();
    Tensor::empty(like.device(), &layout.with_padding(padded).unwrap()).unwrap()
}

fn is_misuse(result: &Result<(), Error>) -> bool {
    matches!(result, Err(Error::Misuse { .. }))
}

#[test]
fn what_is_read_only_or_unlike_the_source_is_not_written() {
    let (runtime, device) = one_cpu();
    let (source, (read_only, _)) = (filled(&device, 9), lent(&runtime, None));
    assert!(is_misuse(&read_only.copy_from(&source, None)));
    assert!(is_misuse(&read_only.fill(&[9], None)));
    assert_eq!(read_only.read().unwrap(), [7; ALL]);
    for (dtype, shape) in [("uint8", &[64, 64][..]), ("int8", &[4096])] {
        let other = empty(&source, dtype, shape, false);
        assert!(is_misuse(&other.copy_from(&source, None)), "{dtype}");
        assert!(is_misuse(&other.fill(&[1, 2], None)), "{dtype}");
    }
    let [packed, padded] = [false, true].map(|padded| empty(&source, "int4", &[6], padded));
    assert!(is_misuse(&packed.copy_from(&padded, None)));
}

#[test]
fn a_tensor_that_is_copied_to_itself_needs_no_work() {
    let (_runtime, device) = one_cpu();
    let tensor = filled(&device, 7);
    let (stream, host_event) = held(&device);
    tensor.copy_from(&tensor.clone(), Some(&stream)).unwrap();
    assert!(tensor.ready().unwrap().is_none());
    host_event.complete(Status::OK).unwrap();
}

#[test]
fn who_is_to_write_waits_for_those_who_read_and_who_is_to_read_does_not() {
    let (_runtime, device) = one_cpu();
    let tensor = filled(&device, 7);
    let (reading, host_event) = held(&device);
    tensor.used_on(&reading).unwrap();
    let [writer, reader] = [(); 2].map(|()| Stream::new(&device).unwrap());
    tensor.wait_to_read(&reader).unwrap();
    reader.synchronize(LIMIT).unwrap();
    tensor.wait_to_write(&writer).unwrap();
    assert!(is_late(&writer), "it is read still");
    host_event.complete(Status::OK).unwrap();
    writer.synchronize(LIMIT).unwrap();
}
