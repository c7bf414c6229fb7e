//! A vendor's library: looked for by its names, opened by each probe and each open, and never unloaded.
#![expect(
    unsafe_code,
    reason = "opens libraries, and looks for functions in them"
)]

use std::error::Error as _;
use std::mem::ManuallyDrop;

use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};

use crate::answers::Unusable;

/// A library that is open.
#[derive(Debug)]
pub struct Library {
    name: &'static str,
    /// Never unloaded: other threads, and host functions that it calls, may run its code.
    handle: ManuallyDrop<Handle>,
}

impl Library {
    /// Opens a library by the first of its names that works. One that the process has already comes first: two
    /// versions of a driver beside each other know nothing of each other's memory. `whose` names it in messages: the
    /// vendor's name with what it calls its library.
    ///
    /// # Errors
    /// It is not there, or does not load.
    pub fn open(names: &[&'static str], whose: &str) -> Result<Self, Unusable> {
        let opened = |name: &'static str, flags| {
            // SAFETY: the names are constants of a vendor's crate, and the initialisers of a vendor's driver may run at any
            // time, on any thread.
            let handle = unsafe { Handle::open(Some(name), flags) }?;
            let handle = ManuallyDrop::new(handle);
            Ok::<_, libloading::Error>(Self { name, handle })
        };
        let here = |name: &&'static str| opened(name, RTLD_NOW | libc::RTLD_NOLOAD).ok();
        if let Some(here) = names.iter().find_map(here) {
            return Ok(here);
        }
        let mut broken = None;
        for name in names {
            match opened(name, RTLD_NOW | RTLD_LOCAL) {
                Ok(found) => return Ok(found),
                Err(error) => {
                    let why = error
                        .source()
                        .map_or_else(|| error.to_string(), ToString::to_string);
                    let is_absent =
                        why.contains("No such file") && why.contains(&format!("{name}:"));
                    if !is_absent {
                        broken = broken.or(Some(format!(
                            "`{name}` does not load: {why}; reinstall the driver"
                        )));
                    }
                }
            }
        }
        Err(broken.map_or_else(|| absent(names, whose), Unusable::Broken))
    }

    /// The name by which it was found.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// One function, if the library has it.
    ///
    /// # Safety
    /// - `T` is the type of a function that has the declaration of this one.
    #[must_use]
    pub unsafe fn find<T: Copy>(&self, name: &str) -> Option<T> {
        // SAFETY: the caller vouches for the type.
        let found = unsafe { self.handle.get::<T>(name.as_bytes()) };
        found.ok().map(|function| *function)
    }

    /// What to say where it lacks functions.
    #[must_use]
    pub fn lacks(&self, names: &[&str]) -> Unusable {
        let shown = names.iter().take(3).map(|name| format!("`{name}`"));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = match names.len().saturating_sub(3) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Unusable::Broken(format!(
            "`{}` is there and lacks {shown}{more}: it is no driver, or too old a one; update \
             the driver",
            self.name
        ))
    }
}

/// What was looked for, and where.
fn absent(names: &[&str], whose: &str) -> Unusable {
    let path = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = match path.as_str() {
        "" => "in the system's folders (LD_LIBRARY_PATH is not set)".to_owned(),
        path => format!("in {path} (LD_LIBRARY_PATH) and the system's folders"),
    };
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(" and ");
    Unusable::Absent(format!("{whose}: looked for {names} {folders}"))
}

/// Declares the functions of a driver as a struct, which its `of` finds in a [`Library`]: `name(OURS as THEIRS, ..)`.
///
/// They are declared with integers, because a driver may answer a number that an enumeration does not have. The macro
/// `$compare` gets each declaration, to compare it with the vendor's when it is compiled. Older drivers lack the
/// optional functions.
#[macro_export]
macro_rules! functions {
    (
        $table:ident, compared by $compare:ident;
        required { $($name:ident($($ours:ty as $theirs:ty),* $(,)?);)* }
        optional { $($maybe:ident($($our:ty as $their:ty),* $(,)?);)* }
    ) => {
        /// The functions of an opened driver.
        #[derive(Debug)]
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($ours),*) -> std::ffi::c_int,)*
            $(pub(crate) $maybe: Option<unsafe extern "C" fn($($our),*) -> std::ffi::c_int>,)*
            library: $crate::vendor::Library,
        }

        $($compare!($name($($ours as $theirs),*));)*
        $($compare!($maybe($($our as $their),*));)*

        impl $table {
            /// Finds all of them.
            fn of(library: $crate::vendor::Library) -> Result<Self, $crate::vendor::Unusable> {
                $(
                    // SAFETY: the declaration of the table is that of the driver's header, with integers of the
                    // same size and alignment, which C passes as it passes pointers and enumerations (x86_64, aarch64).
                    let $name = unsafe { library.find(stringify!($name)) };
                )*
                $(
                    // SAFETY: as above.
                    let $maybe = unsafe { library.find(stringify!($maybe)) };
                )*
                let all = [$((stringify!($name), $name.is_none()),)*];
                let missing = all.iter().filter(|(_, is_missing)| *is_missing);
                let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
                let lacks = || library.lacks(&missing);
                if !missing.is_empty() {
                    return Err(lacks());
                }
                Ok(Self {
                    $($name: $name.ok_or_else(lacks)?,)*
                    $($maybe,)*
                    library,
                })
            }

            /// The name by which the library was found.
            pub(crate) const fn library(&self) -> &'static str {
                self.library.name()
            }
        }
    };
}
