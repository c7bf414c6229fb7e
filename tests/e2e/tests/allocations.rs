//! An export is at most one allocation, and our own export comes back without one.
#![expect(unsafe_code, reason = "a managed tensor by its pointer")]

#[path = "../../../sdk/tests/counting/allocator.rs"]
mod counting;

use crossdock::{Runtime, Tensor};
use crossdock_sdk::dlpack::{Device, Dtype, Layout};

use counting::counted;

#[test]
fn an_exchange_of_an_own_tensor_of_any_rank_is_at_most_one_allocation() {
    let runtime = Runtime::builder().search(false).open().unwrap();
    let cpu = runtime.device(Device::CPU).unwrap();
    for rank in 0..=64 {
        let layout = Layout::compact(Dtype::FLOAT32, &vec![1; rank]).unwrap();
        let tensor = Tensor::empty(&cpu, &layout).unwrap();
        let (managed, exported) = counted(|| tensor.export().unwrap().into_raw());
        let (_device, looked_up) = counted(|| runtime.device(tensor.device().id()).unwrap());
        let (back, imported) = counted(|| {
            // SAFETY: a live export that nobody else owns.
            unsafe { Tensor::import_managed(&runtime, managed) }.unwrap()
        });
        assert_eq!(back.address(), tensor.address());
        let ((), dropped) = counted(|| drop(back));
        assert!(exported <= 1, "rank {rank}: {exported}");
        assert_eq!((looked_up, imported, dropped), (0, 0, 0), "rank {rank}");
    }
}
