//! The order that people give devices: `CROSSDOCK_DEVICE_ORDER`.

use crate::devices::device::Device;

/// Devices that get the first ids of their types, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeviceOrder {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Uuid([u8; 16]),
    Pci(String),
    Place { plugin: String, index: u32 },
}

impl DeviceOrder {
    /// Reads entries with `,` between them: a uuid, a PCI bus id, or `PLUGIN:INDEX`. What is none
    /// of these, and what stands there twice, is left out and becomes a warning.
    pub(crate) fn parse(text: &str) -> (Self, Vec<String>) {
        let (mut order, mut warnings) = (Self::default(), Vec::new());
        for text in text
            .split(',')
            .map(str::trim)
            .filter(|text| !text.is_empty())
        {
            match Entry::parse(text) {
                None => warnings.push(format!(
                    "`{text}` in the device order is no uuid, PCI bus id or PLUGIN:INDEX"
                )),
                Some(entry) if order.entries.contains(&entry) => {
                    warnings.push(format!("`{text}` stands twice in the device order"));
                }
                Some(entry) => order.entries.push(entry),
            }
        }
        (order, warnings)
    }

    /// The devices that are named, in this order, then the others; each with whether it was named.
    pub(crate) fn sort(&self, devices: &[Device]) -> Vec<(Device, bool)> {
        let rank = |device: &Device| self.entries.iter().position(|entry| entry.is(device));
        let mut sorted: Vec<_> = devices
            .iter()
            .map(|device| (rank(device).unwrap_or(usize::MAX), device))
            .collect();
        sorted.sort_by_key(|(rank, _)| *rank);
        let named = |(rank, device): (usize, &Device)| (device.clone(), rank != usize::MAX);
        sorted.into_iter().map(named).collect()
    }

    /// The entries that name no device that is here.
    pub(crate) fn unmatched(&self, devices: &[Device]) -> Vec<String> {
        let is_here = |entry: &&Entry| devices.iter().any(|device| entry.is(device));
        let gone = self.entries.iter().filter(|entry| !is_here(entry));
        gone.map(|entry| format!("the device order names {entry}, which is not here"))
            .collect()
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        if let Some(uuid) = parse_uuid(text) {
            return Some(Self::Uuid(uuid));
        }
        if text.contains('.') && text.contains(':') {
            return Some(Self::Pci(text.to_ascii_lowercase()));
        }
        let (plugin, index) = text.split_once(':')?;
        Some(Self::Place {
            plugin: plugin.to_owned(),
            index: index.parse().ok()?,
        })
    }

    fn is(&self, device: &Device) -> bool {
        match self {
            Self::Uuid(uuid) => device.uuid() == Some(*uuid),
            Self::Pci(id) => device
                .pci_bus_id()
                .is_some_and(|own| own.eq_ignore_ascii_case(id)),
            Self::Place { plugin, index } => {
                device.plugin().name() == plugin && device.index() == *index
            }
        }
    }
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uuid(uuid) => write!(f, "`{:032x}`", u128::from_be_bytes(*uuid)),
            Self::Pci(id) => write!(f, "`{id}`"),
            Self::Place { plugin, index } => write!(f, "`{plugin}:{index}`"),
        }
    }
}

/// 32 hexadecimal digits; dashes between them and a vendor's `GPU-` before them are allowed.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text
        .strip_prefix("GPU-")
        .unwrap_or(text)
        .chars()
        .filter(|c| *c != '-')
        .collect();
    let whole = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = whole.then(|| u128::from_str_radix(&digits, 16).ok())??;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::runtime::Runtime;
    use crate::test_plugins::test_plugin_memory;

    #[test]
    fn the_three_forms_are_read_and_what_is_odd_becomes_a_warning() {
        let text = "GPU-00000000-0000-0000-0000-00000000002a, 0000:03:00.0,opencl:1,opencl:1,x,,0:";
        let odd = "+000000000000000000000000000002b,ab,x.y";
        let (order, warnings) = DeviceOrder::parse(&format!("{text},{odd}"));
        let mut uuid = [0; 16];
        uuid[15] = 42;
        let place = Entry::Place {
            plugin: "opencl".to_owned(),
            index: 1,
        };
        let pci = Entry::Pci("0000:03:00.0".to_owned());
        assert_eq!(order.entries, [Entry::Uuid(uuid), pci, place]);
        assert_eq!(warnings.len(), 6, "{warnings:?}");
    }

    #[test]
    fn what_names_no_device_is_told_as_it_stands_there() {
        let runtime = Runtime::builder().search(false).open().unwrap();
        let plugin = test_plugin_memory::plugin::<0>();
        assert!(runtime.register(&plugin).unwrap());
        let here = format!("{}:0", plugin.name());
        let gone = ["other:0".to_owned(), format!("{}:9", plugin.name())];
        let (order, warnings) = DeviceOrder::parse(&format!("{here},{}", gone.join(",")));
        assert_eq!(warnings, [""; 0]);
        let told = order.unmatched(&runtime.devices());
        let expected =
            gone.map(|entry| format!("the device order names `{entry}`, which is not here"));
        assert_eq!(told, expected);
    }
}
