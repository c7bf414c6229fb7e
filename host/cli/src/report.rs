//! What is here, as `devices` and `doctor` tell it: the JSON form and the text.

use std::path::Path;

use crossdock::{Device, Plugin, PluginState, Runtime, plugin_files};
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Problem, one_line},
    screen::{self, BAD, DIM, HEADING},
    table::{Cell, Table},
    text::Text,
};

/// Everything that was found, and what was not.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) devices: Vec<DeviceRow>,
    pub(crate) plugins: Vec<PluginRow>,
    pub(crate) absent: Vec<AbsentRow>,
    pub(crate) refused: Vec<Problem>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DeviceRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) plugin: String,
    pub(crate) total_memory_bytes: u64,
    /// `None` where the vendor does not say.
    pub(crate) free_memory_bytes: Option<u64>,
    pub(crate) capabilities: Vec<String>,
    pub(crate) uuid: Option<String>,
    pub(crate) pci_bus_id: Option<String>,
    pub(crate) driver_version: String,
    pub(crate) runtime_version: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PluginRow {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) vendor: String,
    /// `None` for the one that is built in.
    pub(crate) path: Option<String>,
    /// `ready`, `absent` or `broken`.
    pub(crate) state: String,
    /// Why it is absent or broken.
    pub(crate) detail: String,
    /// The soname of the driver that it starts, if any: with it no child of a fork can use the plugin
    /// once its parent has.
    pub(crate) driver: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AbsentRow {
    /// A plugin's name.
    pub(crate) name: String,
    /// What was looked for, and where.
    pub(crate) detail: String,
}

impl Report {
    /// What a runtime has.
    pub(crate) fn of(runtime: &Runtime) -> Self {
        // First, because it has the plugins look for their devices.
        let devices = runtime.devices().iter().map(DeviceRow::of).collect();
        let plugins = runtime.plugins();
        Self {
            devices,
            plugins: plugins.iter().map(|plugin| PluginRow::of(plugin)).collect(),
            absent: Vec::new(),
            refused: runtime.refused().into_iter().map(Problem::from).collect(),
        }
    }

    /// Fills the list of what is absent from the plugins and the names that people expect.
    pub(crate) fn list_absent(&mut self) {
        let absent = self.plugins.iter().filter(|plugin| plugin.state == ABSENT);
        self.absent = absent
            .map(|plugin| AbsentRow {
                name: plugin.name.clone(),
                detail: plugin.detail.clone(),
            })
            .collect();
        let folders = plugin_files::search(&[], &plugin_files::Environment::of_process()).folders;
        let folders: Vec<String> = folders
            .iter()
            .filter(|folder| can_be(folder))
            .map(|dir| dir.display().to_string())
            .collect();
        for name in EXPECTED {
            if self.plugins.iter().all(|plugin| plugin.name != name) {
                let detail = format!(
                    "no plugin: looked for libcrossdock_plugin_{name}.so in {}; put it there, or its folder into \
                     CROSSDOCK_PLUGIN_PATH",
                    folders.join(", ")
                );
                self.absent.push(AbsentRow {
                    name: name.to_owned(),
                    detail,
                });
            }
        }
    }

    /// The text for people.
    pub(crate) fn text(&self) -> Text {
        let mut out = self.device_table();
        let mut section = |title: &str, rows: Vec<(String, String)>| {
            if rows.is_empty() {
                return;
            }
            out.plain("\n").styled(HEADING, title).plain("\n");
            let widest = rows
                .iter()
                .map(|(name, _)| name.chars().count())
                .max()
                .unwrap_or(0);
            for (name, detail) in rows {
                let detail = format!("  {}", one_line(&detail));
                out.plain("  ").styled(DIM, format!("{name:widest$}"));
                out.plain(detail.trim_end()).plain("\n");
            }
        };
        let absent = self
            .absent
            .iter()
            .map(|row| (row.name.clone(), row.detail.clone()));
        section("Absent", absent.collect());
        let broken = self.plugins.iter().filter(|plugin| plugin.state == BROKEN);
        section(
            "Broken",
            broken
                .map(|row| (row.name.clone(), row.detail.clone()))
                .collect(),
        );
        if !self.refused.is_empty() {
            out.plain("\n").styled(HEADING, "Refused").plain("\n");
            for problem in &self.refused {
                let text = problem.to_string().replace('\n', "\n  ");
                out.plain("  ").styled(BAD, "refused:");
                out.plain(format!(" {text}\n"));
            }
        }
        out
    }

    fn device_table(&self) -> Text {
        let mut table = Table::new(&["DEVICE", "NAME", "PLUGIN", "MEMORY", "CAPABILITIES"]);
        for device in &self.devices {
            table.row(vec![
                Cell::left(&device.id).styled(screen::GOOD),
                Cell::left(&device.name),
                Cell::left(&device.plugin),
                Cell::right(screen::bytes(device.total_memory_bytes)),
                Cell::left(device.capabilities.join(", ")),
            ]);
        }
        table.text()
    }
}

impl DeviceRow {
    pub(crate) fn of(device: &Device) -> Self {
        let memory = device.memory().ok();
        let free = memory
            .map(|memory| memory.free)
            .filter(|free| *free != u64::MAX);
        let plugin = device.plugin();
        Self {
            id: device.id().to_string(),
            name: device.name().to_owned(),
            plugin: format!("{} {}", plugin.name(), plugin.version()),
            total_memory_bytes: device.total_memory(),
            free_memory_bytes: free,
            capabilities: capabilities(device),
            uuid: device
                .uuid()
                .map(|bytes| bytes.map(|byte| format!("{byte:02x}")).concat()),
            pci_bus_id: device.pci_bus_id().map(ToOwned::to_owned),
            driver_version: device.driver_version().to_owned(),
            runtime_version: device.runtime_version().to_owned(),
        }
    }
}

impl PluginRow {
    pub(crate) fn of(plugin: &Plugin) -> Self {
        let (state, detail) = match plugin.state() {
            PluginState::NotLookedAt => ("not looked at", String::new()),
            PluginState::Ready => ("ready", String::new()),
            PluginState::Absent { detail } => (ABSENT, detail.clone()),
            PluginState::Broken { why } => (BROKEN, why.clone()),
            _ => ("unknown", String::new()),
        };
        let (state, detail) = if plugin.hooks().is_quarantined() {
            (BROKEN, PANICKED.to_owned())
        } else {
            (state, detail)
        };
        Self {
            name: plugin.name().to_owned(),
            version: plugin.version().to_owned(),
            vendor: plugin.vendor().to_owned(),
            path: plugin.path().map(|path| path.display().to_string()),
            state: state.to_owned(),
            detail,
            driver: plugin.driver().map(str::to_owned),
        }
    }
}

/// Whether it is a folder or can be made: nothing is below a file, such as the command's own.
fn can_be(folder: &Path) -> bool {
    let nearest = folder.ancestors().find(|part| part.exists());
    nearest.is_none_or(Path::is_dir)
}

fn capabilities(device: &Device) -> Vec<String> {
    let names = crossdock_sdk::abi::Capabilities::NAMES.iter();
    let set = names.filter(|(bit, _)| device.capabilities().contains(*bit));
    set.map(|(_, name)| name.to_lowercase()).collect()
}

/// A plugin's state in JSON.
pub(crate) const ABSENT: &str = "absent";
/// A plugin's state in JSON.
pub(crate) const BROKEN: &str = "broken";
/// Why a plugin is broken that answered before.
pub(crate) const PANICKED: &str = "one of its hooks panicked, after which none is called";

/// Plugins that people look for; without a file they are told that there is none.
const EXPECTED: [&str; 3] = ["cuda", "rocm", "opencl"];
