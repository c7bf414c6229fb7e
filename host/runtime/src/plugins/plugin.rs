//! A registered plugin: its description, what its probe found, and its hooks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crossdock_layers::Layer;
use crossdock_layers::Table;
use crossdock_sdk::abi::{Capabilities, DeviceInfo, ProbeState, Status};
use crossdock_sdk::deadline::Deadline;
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::plugin::read_fixed_text;

use crate::error::Error;
use crate::hooks::plugin_hooks::Hooks;
use crate::plugin_files::{Remark, loaded_copies};
use crate::plugins::ended_streams::EndedStreams;
use crate::plugins::internal_streams::InternalStreams;
use crate::plugins::listing::Runtimes;
use crate::plugins::live_objects::LiveObjects;
use crate::plugins::live_streams::LiveStreams;
use crate::plugins::lost_devices::LostDevices;
use crate::plugins::open_plugins::{self, Inherited};
use crate::plugins::peer_links::PeerLinks;
use crate::plugins::pending_events::PendingEvents;
use crate::plugins::releases::Releases;
use crate::plugins::workers::Workers;
use crate::process::process_state;

/// What a plugin's probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginState {
    /// Nobody needed its devices yet, so its driver was not started.
    NotLookedAt,
    /// It is open, with devices.
    Ready,
    /// Its driver or devices are not here.
    Absent {
        /// What was looked for, and where.
        detail: String,
    },
    /// Something is here and does not work.
    Broken {
        /// Why.
        why: String,
    },
}

/// What was found of a plugin; an error of a hook where it could not be brought up.
pub(crate) type Found = Result<PluginState, Error>;

/// Who a plugin says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginIdentity {
    /// Its name, as in `libcrossdock_plugin_NAME.so`.
    pub name: Arc<str>,
    /// Who made it.
    pub vendor: String,
    /// Its own version.
    pub version: String,
    /// The device types that it says it serves.
    pub devices: Vec<String>,
    /// The soname of the driver that it starts; `None` where it has none.
    pub driver: Option<String>,
    /// The file; `None` for the plugin that is linked in.
    pub path: Option<PathBuf>,
}

/// A registered plugin. Closed when its last runtime, device and tensor are gone; never unloaded.
///
/// ```
/// use crossdock::{PluginState, Runtime};
///
/// let runtime = Runtime::builder().search(false).open()?;
/// runtime.devices(); // a plugin that nobody needed is not looked at before
/// for plugin in runtime.plugins() {
///     assert_eq!(plugin.name(), "cpu");
///     assert_eq!(plugin.path(), None); // linked in
///     assert_eq!(*plugin.state(), PluginState::Ready);
/// }
/// # Ok::<(), crossdock::Error>(())
/// ```
#[derive(Debug)]
pub struct Plugin {
    identity: PluginIdentity,
    remarks: Vec<Remark>,
    hooks: Hooks,
    /// The layers it will be opened in.
    layers: Vec<Layer>,
    started: OnceLock<Started>,
    internal_streams: InternalStreams,
    ended_streams: EndedStreams,
    pending_events: PendingEvents,
    workers: Workers,
    releases: Arc<Releases>,
    lost_devices: LostDevices,
    streams: LiveStreams,
    objects: LiveObjects,
    runtimes: Runtimes,
    peer_links: PeerLinks,
}

/// What became of a plugin that was looked at.
#[derive(Debug)]
struct Started {
    state: PluginState,
    /// Why it could not be brought up, where it was not its probe that said so.
    failure: Option<Error>,
    remarks: Vec<Remark>,
}

impl Plugin {
    /// A plugin that was loaded, and is neither probed nor opened.
    pub(crate) fn new(identity: PluginIdentity, table: Table, layers: &[Layer]) -> Self {
        Self {
            remarks: Vec::new(),
            hooks: Hooks::new(identity.name.to_string(), table),
            layers: layers.to_vec(),
            started: OnceLock::new(),
            identity,
            internal_streams: InternalStreams::default(),
            ended_streams: EndedStreams::default(),
            pending_events: PendingEvents::default(),
            workers: Workers::default(),
            releases: Arc::default(),
            lost_devices: LostDevices::default(),
            streams: LiveStreams::new(),
            objects: LiveObjects::new(),
            runtimes: Runtimes::default(),
            peer_links: PeerLinks::default(),
        }
    }

    /// The same with what was seen while its file was loaded.
    pub(crate) fn with_remarks(mut self, remarks: Vec<Remark>) -> Self {
        self.remarks = remarks;
        self
    }

    /// Keeps what `find` says of it, by [`Plugin::bring_up`], unless that was done; a second thread waits for
    /// the first.
    pub(crate) fn start(&self, find: impl FnOnce() -> Found) {
        self.started.get_or_init(|| match find() {
            Ok(state) => Started {
                state,
                failure: None,
                remarks: self.several_drivers().into_iter().collect(),
            },
            Err(error) => Started {
                state: broken_by(&error),
                failure: Some(error),
                remarks: Vec::new(),
            },
        });
    }

    /// What to know where several copies of its driver are loaded by now.
    fn several_drivers(&self) -> Option<Remark> {
        let driver = self.driver()?;
        let files = loaded_copies::copies_of(driver);
        if files.len() < 2 {
            return None;
        }
        let driver = driver.to_owned();
        let remark = Remark::SeveralDrivers { driver, files };
        log::warn!(target: "crossdock::load", "`{}`: {remark}", self.name());
        Some(remark)
    }

    /// Waits for a look at it that is under way. Nobody looks at it later.
    pub(crate) fn never_start(&self) {
        self.start(|| Ok(PluginState::NotLookedAt));
    }

    /// Whether it was probed.
    pub(crate) fn is_started(&self) -> bool {
        self.started.get().is_some()
    }

    /// Whether something is there that does not work.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.state(), PluginState::Broken { .. })
    }

    /// The hook that failed when it was probed or opened: another try may go better. That a
    /// probe found it absent or broken is none.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.started.get()?.failure.as_ref()
    }

    /// The same where it may serve devices of this type, and was not opened because of a fork.
    pub(crate) fn forked_from(&self, ty: DeviceType) -> Option<&Error> {
        let is_fork = |error: &&Error| error.status() == Some(Status::FORKED);
        let failure = self.failure().filter(is_fork)?;
        self.serves(ty).then_some(failure)
    }

    /// The types that its description names.
    pub(crate) fn types(&self) -> impl Iterator<Item = DeviceType> {
        let named = self.identity.devices.iter();
        named.filter_map(|name| name.parse().ok())
    }

    /// Whether its description names this type.
    pub(crate) fn serves(&self, ty: DeviceType) -> bool {
        self.types().any(|named| named == ty)
    }

    /// What it says of each of its devices.
    ///
    /// # Errors
    /// What the hooks answered; [`Error::Load`] for a device of a type that the description does not
    /// name, which is where people and programs look for it, for a capability without its group, and for
    /// no device after a probe that found one, and for more than [`MOST_DEVICES`].
    pub(crate) fn device_infos(&self) -> Result<Vec<DeviceInfo>, Error> {
        let describe = |index| {
            let info = self.hooks().device_info(index)?;
            self.check_type(index, DeviceType::from_raw(info.dl_type))?;
            self.check_groups(index, info.capabilities)?;
            Ok(info)
        };
        let count = self.hooks().device_count()?;
        if count == 0 {
            let why = "its `probe` says that a device is here, and its `device_count` is 0";
            let rule = "answer ABSENT in `probe` where there is no device";
            return Err(self.refusal(why.to_owned(), rule));
        }
        if count > MOST_DEVICES {
            let why = format!("its `device_count` is {count}; the limit is {MOST_DEVICES}");
            return Err(self.refusal(why, "return the number of devices"));
        }
        (0..count).map(describe).collect()
    }

    fn check_type(&self, index: u32, ty: DeviceType) -> Result<(), Error> {
        if self.serves(ty) {
            return Ok(());
        }
        let named = self.identity.devices.join(",");
        let why =
            format!("its description says `devices={named}`, and its device {index} is `{ty}`");
        Err(self.refusal(why, "name every device type in the description"))
    }

    fn check_groups(&self, index: u32, claimed: Capabilities) -> Result<(), Error> {
        let Some((capability, group)) = self.hooks().table().lacking(claimed) else {
            return Ok(());
        };
        let why = format!(
            "its device {index} has the capability `{capability}`, and it lacks the group `{group}`"
        );
        Err(self.refusal(
            why,
            "clear the capability, or put its group of hooks into the table",
        ))
    }

    fn refusal(&self, why: String, rule: &str) -> Error {
        Error::Load {
            path: self.path().unwrap_or(Path::new(self.name())).to_owned(),
            why,
            hint: format!("mend the plugin, or ask its author to: {rule}"),
        }
    }

    /// Whether the last runtime that listed it has retired it: it takes no new work from anybody.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.runtimes.is_retired()
    }

    /// Probes it, and opens it where its devices are here.
    pub(crate) fn bring_up(&self) -> Found {
        let (hooks, identity) = (&self.hooks, &self.identity);
        // A probe asks the driver already.
        if let Some(driver) = &identity.driver {
            open_plugins::start_driver(driver)
                .map_err(|Inherited| driver_is_inherited(identity, driver))?;
        }
        let found = hooks.probe()?;
        let detail = read_fixed_text(&found.detail);
        match found.state {
            ProbeState::ABSENT => {
                identity
                    .driver
                    .iter()
                    .for_each(|driver| open_plugins::forget_driver(driver));
                Ok(PluginState::Absent { detail })
            }
            ProbeState::BROKEN => Ok(PluginState::Broken { why: detail }),
            _ => {
                hooks.open_in(&self.layers)?;
                Ok(PluginState::Ready)
            }
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    /// Its name, for what outlives the plugin.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.identity.name)
    }

    /// Who made it.
    #[must_use]
    pub fn vendor(&self) -> &str {
        &self.identity.vendor
    }

    /// Its own version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.identity.version
    }

    /// The soname of the driver that it starts; `None` where it has none.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        self.identity.driver.as_deref()
    }

    /// Its file; `None` for the plugin that is linked in.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.identity.path.as_deref()
    }

    /// What its probe found.
    #[must_use]
    pub fn state(&self) -> &PluginState {
        let started = self.started.get();
        started.map_or(&PluginState::NotLookedAt, |started| &started.state)
    }

    /// What its file changed in the process when it was loaded, and what was seen when it was opened.
    pub fn remarks(&self) -> impl Iterator<Item = &Remark> {
        let started = self.started.get();
        self.remarks
            .iter()
            .chain(started.into_iter().flat_map(|started| &started.remarks))
    }

    /// Its hooks.
    #[must_use]
    pub const fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// The memory behind native objects that is alive on its devices.
    pub(crate) const fn objects(&self) -> &LiveObjects {
        &self.objects
    }

    /// The streams that are alive on its devices.
    pub(crate) const fn streams(&self) -> &LiveStreams {
        &self.streams
    }

    /// The runtimes that list it.
    pub(crate) const fn runtimes(&self) -> &Runtimes {
        &self.runtimes
    }

    /// What is known of the links between its devices.
    pub(crate) const fn peer_links(&self) -> &PeerLinks {
        &self.peer_links
    }

    /// The host's own streams: for waits, and for work on streams of other plugins.
    pub(crate) const fn internal_streams(&self) -> &InternalStreams {
        &self.internal_streams
    }

    /// Streams that were made here and have no handle any more, while their work runs.
    pub(crate) const fn ended_streams(&self) -> &EndedStreams {
        &self.ended_streams
    }

    /// Events of the runtime's own that may be pending.
    pub(crate) const fn pending_events(&self) -> &PendingEvents {
        &self.pending_events
    }

    /// Blocks until all outstanding releases of its memory with a smaller number than `later` are over; `false`
    /// when the deadline passed first, or the process began to exit.
    pub(crate) fn wait_for_releases(&self, later: u64, deadline: Deadline) -> bool {
        self.streams.finish_frees(deadline);
        self.releases.wait(later, deadline.left())
    }

    /// The threads that act when its work is over.
    pub(crate) const fn workers(&self) -> &Workers {
        &self.workers
    }

    /// The releases of its memory that wait for work.
    pub(crate) const fn releases(&self) -> &Arc<Releases> {
        &self.releases
    }

    /// Its devices that were lost.
    pub(crate) const fn lost_devices(&self) -> &LostDevices {
        &self.lost_devices
    }
}

/// The devices of one plugin: a larger number is a mistake, and would take the memory of the process.
const MOST_DEVICES: u32 = 4096;

/// Why a plugin is not opened in the child of a fork whose parent started its driver.
fn driver_is_inherited(identity: &PluginIdentity, driver: &str) -> Error {
    let message = format!(
        "its driver `{driver}` was started before this process was forked off, and works in no \
         child"
    );
    Error::Hook {
        plugin: identity.name.to_string(),
        operation: "open".to_owned(),
        status: Status::FORKED,
        native_code: 0,
        native_name: String::new(),
        message,
    }
}

fn broken_by(error: &Error) -> PluginState {
    PluginState::Broken {
        why: format!("{error}: {}", error.why()),
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        if *self.state() != PluginState::Ready {
            return;
        }
        if process_state::exiting() || self.hooks.is_forked() {
            // Its queues have locks, which threads may hold that a child does not have.
            return process_state::leak(std::mem::take(&mut self.workers));
        }
        self.internal_streams.close(&self.hooks);
        self.ended_streams.close(&self.hooks);
        if let Err(error) = self.hooks.close()
            && !process_state::is_exit_or_fork(&error)
        {
            log::error!(target: "crossdock::load", "{error}: {}", error.why());
        }
    }
}
