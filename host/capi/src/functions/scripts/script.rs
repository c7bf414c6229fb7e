//! `xd_script`: the Python of this process.
#![expect(unsafe_code, reason = "exports functions by name")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossdock::Runtime;
use crossdock_api::{
    Failure, Out, Owned, Ref, ValueKind, XdRuntime, XdScript, XdScriptInfo, XdScriptOptions,
    XdValue,
};
use crossdock_embed::{Choice, Host, Options, Python, search};

use crate::crossing::boundary::{fence_free, fence_into};
use crate::crossing::error_object::c_text;
use crate::crossing::failure::Refusal;
use crate::crossing::input;
use crate::crossing::object::{Handle, borrow, give, shared};
use crate::functions::default_runtime;
use crate::functions::scripts::value;

impl Handle for XdScript {
    type Object = ScriptObject;
    const NAME: &'static str = "script";
}

/// The host of scripts, with the runtime whose tensors they share.
pub(crate) struct ScriptObject {
    pub(crate) host: &'static Host,
    pub(crate) runtime: Arc<Runtime>,
    version: CString,
    executable: CString,
    library: CString,
    prefix: CString,
    base_prefix: CString,
    abi_flags: CString,
    why: CString,
}

impl ScriptObject {
    fn new(host: &'static Host, runtime: Arc<Runtime>) -> Self {
        let choice: &Choice = host.python().choice();
        let path = |path: &Path| c_text(path.as_os_str().as_bytes());
        Self {
            host,
            runtime,
            version: c_text(choice.version_text.as_str()),
            executable: path(&choice.executable),
            library: path(choice.libpython.as_deref().unwrap_or(Path::new(""))),
            prefix: path(&choice.prefix),
            base_prefix: path(&choice.base_prefix),
            abi_flags: c_text(choice.abi_flags.as_str()),
            why: c_text(choice.why.as_str()),
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_script_open(
    runtime: Ref<'_, XdRuntime>,
    options: Ref<'_, XdScriptOptions<'_>>,
    out: Out<'_, Owned<XdScript>>,
) -> Failure {
    fence_into("xd_script_open", out, || {
        let options = python_options(options)?;
        let runtime = match shared(runtime) {
            // Scripts ask for the process's runtime: it is to be this one.
            Some(runtime) if default_runtime::offer(&runtime).is_some() => {
                return Err(Refusal::SecondDefault);
            }
            Some(runtime) => runtime,
            None => default_runtime::get_or_open()?,
        };
        let table = std::ptr::from_ref(crate::functions::table::api()).cast();
        // SAFETY: the table of this library, which is never unloaded once Python knows of it.
        let python = unsafe { Python::open(&options, table) }?;
        Ok(give(ScriptObject::new(Host::start(python)?, runtime)))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_script_explain(
    options: Ref<'_, XdScriptOptions<'_>>,
    out: Out<'_, XdValue>,
) -> Failure {
    fence_into("xd_script_explain", out, || {
        let search = search(&python_options(options)?);
        value::owned(ValueKind::TEXT, search.to_string().into())
    })
}

fn python_options(options: Ref<'_, XdScriptOptions<'_>>) -> Result<Options, Refusal> {
    let given = input::options(options)?.map(|options| options.python);
    let python = given.filter(|python| python.to_c_str().is_some());
    let python = python.map(|python| input::text(python, "python"));
    Ok(Options {
        python: python.transpose()?.map(PathBuf::from),
        ..Options::default()
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_script_describe(
    script: Ref<'_, XdScript>,
    out: Out<'_, XdScriptInfo>,
) -> Failure {
    fence_into("xd_script_describe", out, || {
        let script = borrow(script)?;
        let python = script.host.python();
        let (major, minor) = python.choice().version;
        Ok(XdScriptInfo {
            version: script.version.as_ptr(),
            executable: script.executable.as_ptr(),
            library: script.library.as_ptr(),
            prefix: script.prefix.as_ptr(),
            base_prefix: script.base_prefix.as_ptr(),
            abi_flags: script.abi_flags.as_ptr(),
            why: script.why.as_ptr(),
            major: major.into(),
            minor: minor.into(),
            of_others: python.started_by_others().into(),
            reserved: 0,
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_script_free(script: Owned<XdScript>) {
    fence_free(script);
}
