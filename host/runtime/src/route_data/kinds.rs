//! The kinds of routes, and the ways to make a copy.

use std::fmt;

/// How a tensor reaches a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RouteKind {
    /// The same memory; nothing is copied.
    Alias,
    /// One copy, made by one plugin.
    Direct,
    /// Through host memory, in chunks.
    Staged,
    /// None works.
    Refused,
}

impl fmt::Display for RouteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alias => "alias",
            Self::Direct => "direct",
            Self::Staged => "staged",
            Self::Refused => "refused",
        })
    }
}

/// Which routes are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteChoice {
    /// An alias where there can be one, else the cheapest copy.
    Best,
    /// New memory in any case, by the cheapest copy.
    Copy,
    /// This one, or an error that says why not.
    Only(RouteKind),
}

impl RouteChoice {
    pub(crate) fn allows(self, kind: RouteKind) -> bool {
        match self {
            Self::Best => true,
            Self::Copy => kind != RouteKind::Alias,
            Self::Only(only) => only == kind,
        }
    }
}

/// Which side makes a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The plugin of the source.
    BySource,
    /// The plugin of the destination.
    ByDestination,
    /// The plugin of the source, once what is strided was packed where it is.
    PackedBySource,
    /// The plugin of the destination, in the same way.
    PackedByDestination,
    /// Both, through host memory.
    Staged,
}

impl Way {
    pub(crate) const EACH: [Self; 5] = [
        Self::BySource,
        Self::ByDestination,
        Self::PackedBySource,
        Self::PackedByDestination,
        Self::Staged,
    ];

    pub(crate) const fn kind(self) -> RouteKind {
        match self {
            Self::Staged => RouteKind::Staged,
            _ => RouteKind::Direct,
        }
    }

    /// The same with what is strided packed first. It is worth asking about where costs are known: a
    /// plugin that declines a strided copy has it packed anyway.
    pub(crate) const fn packed(self) -> Option<Self> {
        match self {
            Self::BySource => Some(Self::PackedBySource),
            Self::ByDestination => Some(Self::PackedByDestination),
            _ => None,
        }
    }

    pub(crate) const fn is_packed(self) -> bool {
        matches!(self, Self::PackedBySource | Self::PackedByDestination)
    }
}
