//! Which optional groups a plugin offers.

use core::marker::PhantomData;

use super::shims;
use super::{
    Adopt, AsyncMemory, Attributes, Fill, HostCalls, HostEvents, Map, Peer, Plugin, Pool, Register,
    Streams, Strided, Timing, Wrap,
};
use crate::abi::{
    AdoptHooks, AsyncMemoryHooks, AttributeHooks, FillHooks, HostCallHooks, HostEventHooks,
    MapHooks, PeerHooks, PoolHooks, RegisterHooks, StaticPtr, StreamHooks, StridedHooks,
    TimingHooks, WrapHooks,
};

macro_rules! groups {
    ($($field:ident: $hooks:ident, $bound:ident;)*) => {
        /// The optional groups of a plugin; each method adds one, whose trait must be implemented.
        #[derive(Debug, Clone, Copy)]
        pub struct Groups<P> {
            $(pub(super) $field: StaticPtr<$hooks>,)*
            plugin: PhantomData<fn() -> P>,
        }

        impl<P: Plugin> Groups<P> {
            /// No group: the mandatory hooks only.
            #[must_use]
            pub const fn new() -> Self {
                Self {
                    $($field: StaticPtr::NULL,)*
                    plugin: PhantomData,
                }
            }

            $(
                #[doc = concat!(
                    "Adds the hooks of [`", stringify!($bound), "`], whose contract stands at [`",
                    stringify!($hooks), "`].",
                )]
                #[must_use]
                pub const fn $field(mut self) -> Self
                where
                    P: $bound,
                {
                    self.$field = StaticPtr::new(shims::$bound::<P>::HOOKS);
                    self
                }
            )*
        }
    };
}

groups! {
    streams: StreamHooks, Streams;
    wrap: WrapHooks, Wrap;
    host_events: HostEventHooks, HostEvents;
    host_calls: HostCallHooks, HostCalls;
    timing: TimingHooks, Timing;
    strided: StridedHooks, Strided;
    fill: FillHooks, Fill;
    register: RegisterHooks, Register;
    adopt: AdoptHooks, Adopt;
    map: MapHooks, Map;
    async_memory: AsyncMemoryHooks, AsyncMemory;
    attributes: AttributeHooks, Attributes;
    pool: PoolHooks, Pool;
    peer: PeerHooks, Peer;
}

impl<P: Plugin> Default for Groups<P> {
    fn default() -> Self {
        Self::new()
    }
}
