//! What a plugin says of itself in its section `.crossdock`, read without running it.
//!
//! The section holds the words `CROSSDOCK1` and NUL, then `key=value` texts that each end with
//! NUL; an empty text ends it. Nothing in it is believed before it was looked at.

use std::fmt;

use crossdock_sdk::dlpack::DeviceType;

/// The parsed section `.crossdock`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The plugin's name: 1 to 64 of `a-z`, `0-9`, `_` and `-`.
    pub name: String,
    /// Who made it; empty where it does not say.
    pub vendor: String,
    /// Its own version; empty where it does not say.
    pub version: String,
    /// The version of the contract that it was built for.
    pub abi: AbiVersion,
    /// The device types that it serves, such as `cpu`.
    pub devices: Vec<String>,
    /// The soname of the driver that it starts, which no child of a fork can use; `None` where it has
    /// none.
    pub driver: Option<String>,
}

/// A version of the plugin contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "two numbers for good")]
pub struct AbiVersion {
    /// Both sides must have the same.
    pub major: u32,
    /// The side with the smaller one sets what can be used.
    pub minor: u32,
}

/// Why a section `.crossdock` says nothing that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// Other bytes where the magic word belongs: zeroed, or made by something else.
    #[error("it does not begin with the word `CROSSDOCK1`")]
    NoMagic,
    /// More than a description can need.
    #[error("it has {bytes} bytes, and {LIMIT} are allowed")]
    TooLong {
        /// The section's size.
        bytes: usize,
    },
    /// The empty text at the end is missing.
    #[error("its last text does not end")]
    NotEnded,
    /// A text is not UTF-8, or has no `=`.
    #[error("its text number {number} is not `key=value` in UTF-8")]
    NotAText {
        /// Counted from 1.
        number: usize,
    },
    /// A key stands there twice.
    #[error("it has the key `{key}` twice")]
    Twice {
        /// The key.
        key: &'static str,
    },
    /// A mandatory key is not there.
    #[error("it has no key `{key}`")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A value that cannot be.
    #[error("its key `{key}` has the value `{value}`, and {legal}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value, cut to a line and without control characters.
        value: String,
        /// What it can be.
        legal: String,
    },
}

impl DescribeError {
    /// What its author does about it.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::Value { key, .. } | Self::Missing { key } | Self::Twice { key } => {
                format!("change `{key}` in `describe!` (Rust) or in `XD_PLUGIN_DESCRIBE` (C)")
            }
            _ => "let `describe!` make the `DESCRIPTION` in Rust, or `XD_PLUGIN_DESCRIBE` in C"
                .to_owned(),
        }
    }
}

impl Description {
    /// Reads the bytes of a section.
    ///
    /// # Errors
    /// Says what is missing or cannot be; any bytes are safe to pass.
    pub fn parse(section: &[u8]) -> Result<Self, DescribeError> {
        if section.len() > LIMIT {
            return Err(DescribeError::TooLong {
                bytes: section.len(),
            });
        }
        let texts = section.strip_prefix(MAGIC).ok_or(DescribeError::NoMagic)?;
        let mut values: [Option<&str>; KEYS.len()] = [None; KEYS.len()];
        let mut ended = false;
        let mut pieces = texts.split(|byte| *byte == 0).enumerate().peekable();
        while let Some((index, piece)) = pieces.next() {
            // Bytes after the last NUL are no text.
            if pieces.peek().is_none() {
                break;
            }
            if piece.is_empty() {
                ended = true;
                break;
            }
            let bad = DescribeError::NotAText { number: index + 1 };
            let text = std::str::from_utf8(piece).map_err(|_utf8| bad.clone())?;
            let (key, value) = text.split_once('=').ok_or(bad)?;
            // A newer plugin may say more than this host knows.
            let known = KEYS
                .iter()
                .zip(&mut values)
                .find(|(known, _)| **known == key);
            if let Some((key, place)) = known
                && place.replace(value).is_some()
            {
                return Err(DescribeError::Twice { key });
            }
        }
        if !ended {
            return Err(DescribeError::NotEnded);
        }
        Self::from_values(values)
    }

    /// Whether a host of this version can open the plugin: the majors must be the same.
    #[must_use]
    pub const fn fits(&self, host: AbiVersion) -> bool {
        self.abi.major == host.major
    }

    fn from_values(values: [Option<&str>; KEYS.len()]) -> Result<Self, DescribeError> {
        let [name, vendor, version, abi, devices, driver] = values;
        let required = |key, value: Option<_>| value.ok_or(DescribeError::Missing { key });
        let bad = |key, value: &str, legal: &str| DescribeError::Value {
            key,
            value: printable(value),
            legal: legal.to_owned(),
        };
        let name: &str = required("name", name)?;
        if !is_word(name) {
            return Err(bad(
                "name",
                name,
                "a name is 1 to 64 of a-z, 0-9, `_` and `-`",
            ));
        }
        let text: &str = required("abi", abi)?;
        let abi = AbiVersion::parse(text)
            .ok_or_else(|| bad("abi", text, "a version is `MAJOR.MINOR`"))?;
        let text: &str = required("devices", devices)?;
        let devices: Vec<String> = text
            .split(',')
            .map(|device| device.trim().to_owned())
            .collect();
        // A type that is newer than this host is named by its number.
        if let Some(Err(error)) = devices
            .iter()
            .map(|device| device.parse::<DeviceType>())
            .find(Result::is_err)
        {
            // As a part of a sentence.
            let legal = error.to_string();
            let legal = legal.replacen("device: no device type", "there is no type", 1);
            return Err(bad("devices", text, &legal));
        }
        if let Some(driver) = driver.filter(|driver| !is_soname(driver)) {
            let legal = "a driver is named as it is opened, `libcuda.so.1`";
            return Err(bad("driver", driver, legal));
        }
        Ok(Self {
            name: name.to_owned(),
            vendor: printable(vendor.unwrap_or_default()),
            version: printable(version.unwrap_or_default()),
            abi,
            devices,
            driver: driver.map(ToOwned::to_owned),
        })
    }
}

impl AbiVersion {
    /// Reads `major.minor`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten()
        };
        Some(Self {
            major: number(major)?,
            minor: number(minor)?,
        })
    }
}

impl fmt::Display for AbiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Names of plugins.
fn is_word(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}

/// Names of drivers: of a file without its folder.
fn is_soname(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'/';
    (1..=255).contains(&text.len()) && text.bytes().all(allowed)
}

/// A foreign text as it may be shown: one line of at most 120 characters.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(120).collect()
}

/// The first bytes of a section `.crossdock`.
pub(super) const MAGIC: &[u8] = b"CROSSDOCK1\0";

const KEYS: [&str; 6] = ["name", "vendor", "version", "abi", "devices", "driver"];
const LIMIT: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &[u8] =
        b"CROSSDOCK1\0name=tiny\0vendor=Me\0version=1.2\0abi=1.0\0devices=cpu,ext_dev\0new=x\0\0";

    #[test]
    fn a_good_section_is_read_whole() {
        let read = Description::parse(GOOD).unwrap();
        assert_eq!((read.name.as_str(), read.vendor.as_str()), ("tiny", "Me"));
        assert_eq!(read.abi, AbiVersion { major: 1, minor: 0 });
        assert_eq!(read.devices, ["cpu", "ext_dev"]);
        assert_eq!(read.driver, None);
        assert!(read.fits(AbiVersion { major: 1, minor: 7 }));
        assert!(!read.fits(AbiVersion { major: 2, minor: 0 }));
    }

    #[test]
    fn a_driver_is_named_by_those_that_have_one() {
        let with_driver = [&GOOD[..GOOD.len() - 1], b"driver=libcuda.so.1\0\0"].concat();
        let read = Description::parse(&with_driver).unwrap();
        assert_eq!(read.driver.as_deref(), Some("libcuda.so.1"));
    }

    #[test]
    fn a_value_that_cannot_be_is_changed_where_the_author_wrote_it() {
        let fault = Description::parse(b"CROSSDOCK1\0name=A/b\0abi=1.0\0devices=cpu\0\0");
        let hint = fault.unwrap_err().hint();
        assert!(hint.starts_with("change `name` in `describe!`"), "{hint}");
        let hint = Description::parse(b"name=a\0\0").unwrap_err().hint();
        assert!(hint.contains("`DESCRIPTION`"), "{hint}");
    }

    #[test]
    fn each_fault_has_its_own_answer() {
        let long = [GOOD, &[0; LIMIT]].concat();
        let cases: [(&[u8], &str); 15] = [
            (b"", "CROSSDOCK1"),
            (&[0; 64], "CROSSDOCK1"),
            (&long, "allowed"),
            (b"CROSSDOCK1\0name=a", "does not end"),
            (b"CROSSDOCK1\0name=a\0", "does not end"),
            (b"CROSSDOCK1\0name=\xff\0\0", "text number 1"),
            (b"CROSSDOCK1\0name\0\0", "text number 1"),
            (b"CROSSDOCK1\0name=a\0name=b\0\0", "twice"),
            (b"CROSSDOCK1\0name=a\0abi=1.0\0\0", "no key `devices`"),
            (
                b"CROSSDOCK1\0name=A/b\0abi=1.0\0devices=cpu\0\0",
                "`A/b`, and a name is 1 to 64",
            ),
            (
                b"CROSSDOCK1\0name=a\0abi=1.0\0devices=cpu,gpu\0\0",
                "`cpu,gpu`, and there is no type \"gpu\"; there are cpu, cuda",
            ),
            (
                b"CROSSDOCK1\0name=a\0abi=1.0\0devices=\0\0",
                "there are cpu, cuda",
            ),
            (b"CROSSDOCK1\0name=a\0abi=1\0devices=cpu\0\0", "`abi`"),
            (
                b"CROSSDOCK1\0name=a\0abi=1.0\0devices=cpu\0driver=\0\0",
                "`driver`",
            ),
            (
                b"CROSSDOCK1\0name=a\0abi=1.0\0devices=cpu\0driver=/lib/a.so\0\0",
                "`/lib/a.so`, and a driver is named",
            ),
        ];
        for (bytes, part) in cases {
            let text = Description::parse(bytes).unwrap_err().to_string();
            assert!(text.contains(part), "{text} has no {part}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
            magic: bool,
        ) {
            if magic {
                bytes.splice(0..0, MAGIC.iter().copied());
            }
            drop(Description::parse(&bytes));
        }
    }
}
