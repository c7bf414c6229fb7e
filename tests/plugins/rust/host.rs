//! A host of a later version of the contract: loads each file and moves a tensor there and back.

use crossdock::{Error, Runtime, Tensor};
use crossdock_sdk::abi::ABI_MINOR;
use crossdock_sdk::dlpack::{Dtype, Layout};

fn main() -> Result<(), String> {
    for path in std::env::args().skip(1) {
        let line = try_out(&path).map_err(|error| format!("{error}: {}", error.why()))?;
        println!("{line}");
    }
    Ok(())
}

fn try_out(path: &str) -> Result<String, Error> {
    let runtime = Runtime::builder().search(false).open()?;
    let plugin = runtime.load(path.as_ref())?;
    let table = plugin.hooks().table().raw();
    let later = if table.later.is_null() { "absent" } else { "there" };
    let layout = Layout::compact(Dtype::UINT8, &[1000])?;
    for device in runtime.devices() {
        let tensor = Tensor::from_bytes(&device, &layout, &[42; 1000])?;
        assert_eq!(tensor.read()?, [42; 1000]);
    }
    let (devices, minor) = (runtime.devices().len(), table.abi_minor);
    Ok(format!("host 1.{ABI_MINOR}, plugin 1.{minor}, {devices} devices, later group {later}"))
}
