//! The registry's way of being read and replaced, under the model checker.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::{sync::Arc, thread};

use super::published::Published;

/// As the registry is: two lists that belong together.
#[derive(Debug, Default, Clone)]
struct Registry {
    plugins: Vec<u32>,
    devices: Vec<u32>,
}

impl Registry {
    fn add(&mut self, plugin: u32) {
        self.plugins.push(plugin);
        self.devices.push(plugin);
    }

    fn retire(&mut self, plugin: u32) {
        self.plugins.retain(|other| *other != plugin);
        self.devices.retain(|other| *other != plugin);
    }
}

#[test]
fn a_reader_sees_a_whole_registry_from_before_or_after_a_change() {
    loom::model(|| {
        let registry = Arc::new(Published::<Registry>::default());
        let reader = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || {
                let now = registry.read();
                assert_eq!(now.plugins, now.devices);
                let first = now.plugins.len();
                drop(now);
                assert!(
                    registry.read().plugins.len() >= first,
                    "a change was undone"
                );
            })
        };
        registry.change(|registry| registry.add(1), |_| ());
        registry.change(|registry| registry.add(2), |_| ());
        reader.join().unwrap();
    });
}

#[test]
fn two_writers_lose_no_change_of_each_other() {
    loom::model(|| {
        let registry = Arc::new(Published::<Registry>::default());
        let other = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || registry.change(|registry| registry.add(1), |_| ()))
        };
        registry.change(|registry| registry.add(2), |_| ());
        other.join().unwrap();
        let mut plugins = registry.read().plugins.clone();
        plugins.sort_unstable();
        assert_eq!(plugins, [1, 2]);
    });
}

#[test]
fn a_retired_plugin_is_found_by_no_read_that_begins_after_retire_returned() {
    loom::model(|| {
        let registry = Arc::new(Published::<Registry>::default());
        registry.change(|registry| registry.add(1), |_| ());
        let retired = Arc::new(AtomicBool::new(false));
        let reader = {
            let (registry, retired) = (Arc::clone(&registry), Arc::clone(&retired));
            thread::spawn(move || {
                let gone = retired.load(Ordering::Acquire);
                let found = registry.read().devices.contains(&1);
                assert!(!(gone && found), "a retired plugin was found");
            })
        };
        let writer = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || registry.change(|registry| registry.add(2), |_| ()))
        };
        registry.change(|registry| registry.retire(1), |_| ());
        retired.store(true, Ordering::Release);
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(registry.read().devices, [2]);
    });
}
