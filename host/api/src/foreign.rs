//! A table that another library hands out is looked at before it is believed.
#![expect(unsafe_code, reason = "reads a table of another library")]

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

use crate::table::{API_MAJOR, API_MINOR, XdApi};

/// Why a table is not used. `Display` goes on from the name of the library: "it ...".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableRefused {
    /// The address is NULL, or no struct can lie there.
    NoTable,
    /// Another major version, or a table that lacks what is needed here.
    Version {
        /// Its major version.
        abi_major: u32,
        /// Its minor version.
        abi_minor: u32,
        /// Its bytes.
        struct_size: u64,
    },
    /// A function that every table has is NULL.
    NoFunction {
        /// Its name without `xd_`.
        name: &'static str,
    },
}

impl XdApi {
    /// Believes a table of this major version that has every function which this one has.
    ///
    /// # Errors
    /// What is wrong with it.
    ///
    /// # Safety
    /// - `table` is NULL, or a table of any version as its maker knows it, which nobody changes and
    ///   which lives as long as the process.
    pub unsafe fn from_raw(table: *const c_void) -> Result<&'static Self, TableRefused> {
        let table = table.cast::<Self>();
        if table.is_null() || !table.is_aligned() {
            return Err(TableRefused::NoTable);
        }
        // SAFETY: every version of a table begins with these three, and it is aligned.
        let head = unsafe { table.cast::<Head>().read() };
        if head.abi_major != API_MAJOR || head.struct_size < size_of::<Self>() as u64 {
            let (abi_major, abi_minor) = (head.abi_major, head.abi_minor);
            return Err(TableRefused::Version {
                abi_major,
                abi_minor,
                struct_size: head.struct_size,
            });
        }
        for &(name, offset) in Self::FUNCTIONS {
            // SAFETY: the table has our size, so each function's place is inside it.
            let place = unsafe { table.byte_add(offset) };
            // SAFETY: a pointer lies there, NULL or not.
            let function = unsafe { place.cast::<Option<NonNull<c_void>>>().read() };
            if function.is_none() {
                return Err(TableRefused::NoFunction { name });
            }
        }
        // SAFETY: our major version, at least our size, no function NULL; it lives for ever.
        Ok(unsafe { &*table })
    }
}

impl fmt::Display for TableRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTable => f.write_str("gave no function table"),
            Self::Version {
                abi_major,
                abi_minor,
                struct_size,
            } => write!(
                f,
                "has version {abi_major}.{abi_minor} of the function table in {struct_size} bytes, \
                 and {API_MAJOR}.{API_MINOR} in {} is needed",
                size_of::<XdApi>()
            ),
            Self::NoFunction { name } => {
                write!(f, "has a function table in which `xd_{name}` is NULL")
            }
        }
    }
}

/// What every version of a table begins with.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    struct_size: u64,
    abi_major: u32,
    abi_minor: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: usize = size_of::<XdApi>() / 8 - 2;

    /// A table of a library of another version.
    #[repr(C)]
    struct Other {
        head: Head,
        functions: [Option<extern "C" fn()>; WORDS],
        /// What a newer one has.
        more: [Option<extern "C" fn()>; 4],
    }

    extern "C" fn function() {}

    fn other(change: impl FnOnce(&mut Other)) -> Result<u32, TableRefused> {
        let mut table = Box::new(Other {
            head: Head {
                struct_size: size_of::<XdApi>() as u64,
                abi_major: API_MAJOR,
                abi_minor: API_MINOR,
            },
            functions: [Some(function); WORDS],
            more: [None; 4],
        });
        change(&mut table);
        let table = std::ptr::from_ref(Box::leak(table)).cast();
        // SAFETY: a table with the size that it says, or too small to be looked at; it is leaked.
        unsafe { XdApi::from_raw(table) }.map(|table| table.abi_minor)
    }

    #[test]
    fn a_table_of_this_version_and_a_newer_one_with_more_functions_are_believed() {
        assert_eq!(other(|_| ()), Ok(API_MINOR));
        let newer = other(|table| {
            table.head.struct_size = size_of::<Other>() as u64;
            table.head.abi_minor = API_MINOR + 7;
        });
        assert_eq!(newer, Ok(API_MINOR + 7));
    }

    #[test]
    fn another_major_version_and_a_shorter_table_are_refused_with_both_versions() {
        let major = other(|table| {
            table.head.abi_major = API_MAJOR + 1;
            table.functions[0] = None;
        });
        let short = other(|table| {
            table.head.struct_size -= 8;
            table.head.abi_minor = 0;
        });
        let expected = [
            (major, format!("has version {}.{API_MINOR} ", API_MAJOR + 1)),
            (short, format!("has version {API_MAJOR}.0 ")),
        ];
        for (found, text) in expected {
            let why = found.unwrap_err().to_string();
            let needed = format!("{API_MAJOR}.{API_MINOR} in {}", size_of::<XdApi>());
            assert!(why.starts_with(&text) && why.contains(&needed), "{why}");
        }
    }

    #[test]
    fn a_function_that_is_missing_is_named() {
        for (place, (name, _)) in XdApi::FUNCTIONS.iter().enumerate() {
            let found = other(|table| table.functions[place] = None);
            assert_eq!(found, Err(TableRefused::NoFunction { name }));
        }
    }

    #[test]
    fn where_no_table_can_lie_none_is_read() {
        for address in [0, 1, 2, 4] {
            let nowhere = std::ptr::without_provenance(address);
            // SAFETY: NULL, or refused for its alignment before it is read.
            let found = unsafe { XdApi::from_raw(nowhere) };
            assert_eq!(found.map(|_| ()), Err(TableRefused::NoTable));
        }
    }
}
