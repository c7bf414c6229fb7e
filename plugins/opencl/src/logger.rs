//! Carries this library's log lines to the host: its `log` is not the host's `log`.

use crossdock_sdk::plugin::Host;
use log::{LevelFilter, Log, Metadata, Record};

/// Sends lines to `host` from now on; the first host that opens the plugin keeps them.
pub(crate) fn connect(host: Host) {
    if log::set_boxed_logger(Box::new(ToHost(host))).is_ok() {
        // The host says which lines it wants, each time.
        log::set_max_level(LevelFilter::Trace);
    }
}

struct ToHost(Host);

impl Log for ToHost {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        self.0
            .log(record.level(), record.target(), &record.args().to_string());
    }

    fn flush(&self) {}
}
