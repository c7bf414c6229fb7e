//! The code that made a call: a place in a library or program, and the line of Python that runs there.
#![expect(unsafe_code, reason = "asks the loader what is at an address")]

use std::ffi::{CStr, c_char};
use std::fmt;
use std::path::Path;

/// Where a call came from. It is noted as numbers, and becomes words as somebody reads it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The address that the call returns to; 0 where nobody knows it.
    pub returns_to: usize,
    /// The line of Python whose code made it.
    pub line: Option<Line>,
    /// Where that is in an installed package: the line outside of those that it came from.
    pub program: Option<Line>,
}

/// A line of Python.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Line {
    /// As Python names the file.
    pub file: String,
    /// Counted from 1.
    pub number: i32,
    /// The function that it is in, with the classes around it.
    pub function: String,
}

/// A place in machine code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Native {
    /// The file of the library or program.
    pub module: String,
    /// From where that is loaded; what `addr2line` takes of a library.
    pub offset: usize,
    /// The exported function around it, and how far behind its beginning it is.
    pub function: Option<(String, usize)>,
}

impl Place {
    /// The call in machine code, where a loaded file is there.
    #[must_use]
    pub fn native(&self) -> Option<Native> {
        // The address behind a call may be another function's.
        let at = self.returns_to.checked_sub(1)?;
        let mut found = libc::Dl_info {
            dli_fname: std::ptr::null(),
            dli_fbase: std::ptr::null_mut(),
            dli_sname: std::ptr::null(),
            dli_saddr: std::ptr::null_mut(),
        };
        // SAFETY: `found` is written during the call, and any address may be asked for.
        let is_found = unsafe { libc::dladdr(std::ptr::without_provenance(at), &raw mut found) };
        if is_found == 0 {
            return None;
        }
        let function = text(found.dli_sname);
        Some(Native {
            module: text(found.dli_fname)?,
            offset: at.checked_sub(found.dli_fbase.addr())?,
            function: function
                .and_then(|name| Some((name, at.checked_sub(found.dli_saddr.addr())?))),
        })
    }
}

fn text(words: *const c_char) -> Option<String> {
    if words.is_null() {
        return None;
    }
    // SAFETY: it is not NULL, and a C string of the loader's, which stays while its file is loaded.
    let words = unsafe { CStr::from_ptr(words) };
    Some(words.to_string_lossy().into_owned())
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} in {}", self.file, self.number, self.function)
    }
}

impl fmt::Display for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = Path::new(&self.module).file_name();
        let file = file.map_or_else(
            || self.module.as_str().into(),
            std::ffi::OsStr::to_string_lossy,
        );
        match &self.function {
            Some((name, behind)) => write!(f, "{name}+{behind:#x} of {file}"),
            None => write!(f, "{file}+{:#x}", self.offset),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(line) = &self.line else {
            return match self.native() {
                Some(native) => native.fmt(f),
                None => write!(f, "{:#x}", self.returns_to),
            };
        };
        line.fmt(f)?;
        if let Some(program) = &self.program {
            write!(f, " for {program}")?;
        }
        self.native()
            .map_or(Ok(()), |native| write!(f, ", {native}"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::{Line, Place};

    #[test]
    fn a_place_is_told_with_its_line_and_its_file() {
        let line = Line {
            file: "a.py".to_owned(),
            number: 7,
            function: "f".to_owned(),
        };
        static HERE: AtomicBool = AtomicBool::new(false);
        let here: *const AtomicBool = &raw const HERE;
        let returns_to = here.addr() + 1;
        let place = Place {
            returns_to,
            line: Some(line.clone()),
            program: None,
        };
        let native = place.native().unwrap();
        assert!(native.module.contains("crossdock_sim_engine"));
        assert!(place.to_string().starts_with("a.py:7 in f, "), "{place}");
        let program = Line {
            file: "b.py".to_owned(),
            number: 8,
            function: "g".to_owned(),
        };
        let place = Place {
            program: Some(program),
            ..place
        };
        let told = place.to_string();
        assert!(told.starts_with("a.py:7 in f for b.py:8 in g, "), "{told}");
        let nowhere = Place {
            returns_to: 2,
            line: None,
            program: None,
        };
        assert_eq!(nowhere.to_string(), "0x2");
    }
}
