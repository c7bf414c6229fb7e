//! The runtime that a script shares with the command: that of the library beside the command, so
//! that extension modules which need the library meet the same one.
#![expect(
    unsafe_code,
    reason = "reads the function table that a library hands out"
)]

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crossdock_api::{Out, Owned, Text, XdApi, XdDevice, XdError, XdRuntime, XdRuntimeOptions};
use crossdock_embed::{Choice, Options, Python, table_of};

use crate::command::run::logging;
use crate::{
    failure::{Failure, Problem},
    globals::Globals,
};

/// The function table that scripts get.
#[derive(Clone, Copy)]
pub(crate) struct Shared(&'static XdApi);

impl Shared {
    /// That of the library which lies with this program, or of the copy inside this program.
    pub(crate) fn beside_this_program() -> Self {
        for file in places().into_iter().filter(|file| file.is_file()) {
            let table = match table_of(&file) {
                Ok(table) => table,
                Err(failure) => {
                    log::warn!("{failure}");
                    continue;
                }
            };
            // SAFETY: what a library of ours hands out is a table, which lives as long as the process.
            match unsafe { XdApi::from_raw(table) } {
                Ok(table) => {
                    logging::connect(table);
                    return Self(table);
                }
                Err(why) => log::warn!("`{}` {why}", file.display()),
            }
        }
        Self(crossdock_capi::api())
    }

    /// Opens the Python of a choice, with this table in it.
    pub(crate) fn open_python(
        self,
        choice: Choice,
        options: &Options,
    ) -> Result<&'static Python, Problem> {
        let table = std::ptr::from_ref(self.0).cast::<c_void>();
        // SAFETY: a function table, which is never unloaded.
        Ok(unsafe { Python::open_choice(choice, options, table) }?)
    }
}

/// In the wheel the library lies beside the command, in an install prefix under `lib`, and where it
/// was built it has the name of its crate.
fn places() -> Vec<PathBuf> {
    const NAME: &str = "libcrossdock.so.1";
    let own = std::env::current_exe().unwrap_or_default();
    let Some(folder) = own.parent() else {
        return Vec::new();
    };
    let mut places = vec![folder.join(NAME)];
    if let Some(prefix) = folder.parent() {
        places.extend(["lib", "lib64"].map(|lib| prefix.join(lib).join(NAME)));
    }
    places.push(folder.join("libcrossdock_capi.so"));
    places
}

/// A runtime that was opened before the script.
pub(crate) struct Opened {
    api: &'static XdApi,
    runtime: Owned<XdRuntime>,
}

/// Opens the process's runtime where the command line asks something of it; else the script's first
/// use does.
pub(crate) fn open(shared: Shared, globals: &Globals) -> Result<Option<Opened>, Failure> {
    let none = globals.plugin.is_empty() && globals.plugin_path.is_none();
    if none && globals.require.is_empty() {
        return Ok(None);
    }
    let api = shared.0;
    let files = texts(globals.plugin.iter().map(PathBuf::as_path))?;
    let folders = texts(globals.plugin_path.as_deref().into_iter())?;
    let (files, folders) = (lent(&files), lent(&folders));
    let options = XdRuntimeOptions::new(&files, &folders);
    let mut opened = Opened {
        api,
        runtime: Owned::NULL,
    };
    check(
        api,
        (api.runtime_open)((&options).into(), Out::from(&mut opened.runtime)),
    )?;
    check(api, (api.runtime_make_default)(opened.runtime.lend()))?;
    for wanted in &globals.require {
        opened.require(&wanted.to_string())?;
    }
    Ok(Some(opened))
}

impl Opened {
    fn require(&self, ty: &str) -> Result<(), Failure> {
        let name = CString::new(ty).unwrap_or_default();
        let mut device: Owned<XdDevice> = Owned::NULL;
        let found = (self.api.runtime_device_named)(
            self.runtime.lend(),
            Text::new(&name),
            Out::from(&mut device),
        );
        check(self.api, found)?;
        (self.api.device_free)(device);
        Ok(())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let runtime = std::mem::replace(&mut self.runtime, Owned::NULL);
        (self.api.runtime_free)(runtime);
    }
}

fn texts<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<Vec<CString>, Problem> {
    let texts = paths.map(|path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        CString::new(path.as_os_str().as_bytes())
    });
    texts.collect::<Result<_, _>>().map_err(|error| {
        Problem::new(
            "read the path of a plugin",
            error.to_string(),
            "check the path",
        )
    })
}

fn lent(texts: &[CString]) -> Vec<Text<'_>> {
    texts.iter().map(|text| Text::new(text)).collect()
}

fn check(api: &XdApi, failure: Owned<XdError>) -> Result<(), Problem> {
    if failure.is_null() {
        return Ok(());
    }
    let text = |text: Text<'_>| match text.to_c_str() {
        Some(text) => text.to_string_lossy().into_owned(),
        None => String::new(),
    };
    let problem = Problem::new(
        text((api.error_message)(failure.lend())),
        text((api.error_why)(failure.lend())),
        text((api.error_hint)(failure.lend())),
    );
    (api.error_free)(failure);
    Err(problem)
}
