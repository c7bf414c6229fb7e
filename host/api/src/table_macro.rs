//! What `table.rs` makes of a list of functions: the struct, and the names with their places.

macro_rules! table {
    ($($(#[$doc:meta])* $name:ident: $function:ty;)*) => {
        /// The function table. Each field is the function `xd_` + its name, and never NULL.
        ///
        /// A field is added at the end only. A reader of a table of another version copies no more
        /// than `struct_size` bytes of it.
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        #[expect(clippy::exhaustive_structs, reason = "the size and version say what is there")]
        pub struct XdApi {
            /// Bytes of this struct as its maker knows it.
            pub struct_size: u64,
            /// [`API_MAJOR`](crate::API_MAJOR) of its maker.
            pub abi_major: u32,
            /// [`API_MINOR`](crate::API_MINOR) of its maker.
            pub abi_minor: u32,
            $($(#[$doc])* pub $name: $function,)*
        }

        impl XdApi {
            /// Every function's name without `xd_` and its offset, in the order of the table.
            pub const FUNCTIONS: &'static [(&'static str, usize)] =
                &[$((stringify!($name), std::mem::offset_of!(Self, $name))),*];
        }
    };
}

pub(crate) use table;
