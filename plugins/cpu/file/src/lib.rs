//! Crossdock's CPU plugin as a file.

crossdock_sdk::export_plugin!(crossdock_plugin_cpu::Cpu);
