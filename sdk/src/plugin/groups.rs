//! Which optional groups a plugin offers.

use core::marker::PhantomData;

use super::shims;
use super::{
    Adopt, AsyncMemory, Attributes, Fill, HostCalls, HostEvents, Map, Plugin, Register, Streams,
    Strided, Timing, Wrap,
};
use crate::abi::{
    AdoptHooks, AsyncMemoryHooks, AttributeHooks, Features, FillHooks, HostCallHooks,
    HostEventHooks, MapHooks, RegisterHooks, StaticPtr, StreamHooks, StridedHooks, TimingHooks,
    WrapHooks,
};

macro_rules! groups {
    ($($field:ident: $hooks:ident, $bound:ident, $feature:ident;)*) => {
        /// The optional groups of a plugin; each method adds one, whose trait must be implemented.
        #[derive(Debug, Clone, Copy)]
        pub struct Groups<P> {
            pub(super) features: Features,
            $(pub(super) $field: StaticPtr<$hooks>,)*
            plugin: PhantomData<fn() -> P>,
        }

        impl<P: Plugin> Groups<P> {
            /// No group: the mandatory hooks only.
            #[must_use]
            pub const fn new() -> Self {
                Self {
                    features: Features::empty(),
                    $($field: StaticPtr::NULL,)*
                    plugin: PhantomData,
                }
            }

            $(
                #[doc = concat!("Adds the hooks of [`", stringify!($bound), "`].")]
                #[must_use]
                pub const fn $field(mut self) -> Self
                where
                    P: $bound,
                {
                    self.features = self.features.with(Features::$feature);
                    self.$field = StaticPtr::new(shims::$bound::<P>::HOOKS);
                    self
                }
            )*
        }
    };
}

groups! {
    streams: StreamHooks, Streams, STREAMS;
    wrap: WrapHooks, Wrap, WRAP;
    host_events: HostEventHooks, HostEvents, HOST_EVENTS;
    host_calls: HostCallHooks, HostCalls, HOST_CALLS;
    timing: TimingHooks, Timing, TIMING;
    strided: StridedHooks, Strided, STRIDED;
    fill: FillHooks, Fill, FILL;
    register: RegisterHooks, Register, REGISTER;
    adopt: AdoptHooks, Adopt, ADOPT;
    map: MapHooks, Map, MAP;
    async_memory: AsyncMemoryHooks, AsyncMemory, ASYNC_MEMORY;
    attributes: AttributeHooks, Attributes, ATTRIBUTES;
}

impl<P: Plugin> Default for Groups<P> {
    fn default() -> Self {
        Self::new()
    }
}
