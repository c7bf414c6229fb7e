//! Host memory that is registered with a device, and unregistered before it is given back.
#![expect(unsafe_code, reason = "a plugin locks the memory by its address")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crossdock::{Error, Hooks};
use crossdock_sdk::abi::{Address, MemoryKind, Side, Status};

use crate::allocation::misuse;
use crate::event::note;
use crate::host_memory::HostMemory;

/// Registered host memory.
#[derive(Debug)]
pub(crate) struct Registration<'h> {
    hooks: &'h Hooks,
    device: u32,
    /// There until it is given back.
    memory: Option<HostMemory>,
    word: u64,
    has_ended: AtomicBool,
}

impl<'h> Registration<'h> {
    /// Registers all of `memory`, and keeps it until it is unregistered.
    pub(crate) fn new(
        hooks: &'h Hooks,
        device: u32,
        mut memory: HostMemory,
    ) -> Result<Self, Error> {
        let (word, size) = (memory.expose(), memory.size());
        let pointer = pointer(word);
        // SAFETY: `register_host` needs
        // - memory that is valid until it is unregistered: `memory` moves into the result, which
        //   gives it back after `unregister_host` only, and leaks it when that fails.
        unsafe { hooks.register_host(device, pointer, size) }?;
        Ok(Self {
            hooks,
            device,
            memory: Some(memory),
            word,
            has_ended: AtomicBool::new(false),
        })
    }

    /// Registers a part of the memory once more, and undoes that at once where it was taken.
    pub(crate) fn again(&self, offset: u64, size: u64) -> Result<(), Error> {
        let whole = self.memory.as_ref().map_or(0, HostMemory::size);
        if offset.checked_add(size).is_none_or(|end| end > whole) {
            return Err(misuse("a registration of the suite leaves its memory"));
        }
        let pointer = pointer(self.word + offset);
        // SAFETY: `register_host` needs
        // - memory that is valid until it is unregistered: it is a part of `self.memory`, which
        //   outlives the call, and a registration that is taken ends below.
        unsafe { self.hooks.register_host(self.device, pointer, size) }?;
        unregister_word(self.hooks, self.device, self.word + offset)
    }

    pub(crate) const fn hooks(&self) -> &'h Hooks {
        self.hooks
    }

    pub(crate) const fn device(&self) -> u32 {
        self.device
    }

    /// The address of the first byte.
    pub(crate) const fn word(&self) -> u64 {
        self.word
    }

    /// All of it, as copies name it.
    pub(crate) const fn side(&self) -> Side {
        Side {
            address: Address::pointer(self.word),
            kind: MemoryKind::HOST,
            device: 0,
        }
    }

    /// The memory, at its registered address.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], HostMemory::bytes)
    }

    /// Ends the registration while work may use the memory, which stays where it is.
    pub(crate) fn end_beside_work(&self) -> Result<(), Error> {
        let answer = loop {
            match unregister_word(self.hooks, self.device, self.word) {
                Err(error) if error.status() == Some(Status::NOT_READY) => {
                    std::thread::yield_now();
                }
                answer => break answer,
            }
        };
        self.has_ended.store(answer.is_ok(), Ordering::SeqCst);
        answer
    }

    /// Ends the registration, and gives the memory back.
    pub(crate) fn unregister(mut self) -> Result<HostMemory, Error> {
        let memory = self.memory.take().ok_or_else(|| misuse("given back"))?;
        match unregister_word(self.hooks, self.device, self.word) {
            Ok(()) => Ok(memory),
            Err(error) => {
                memory.leak();
                Err(error)
            }
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else {
            return;
        };
        if self.has_ended.load(Ordering::SeqCst) {
            return;
        }
        let answer = unregister_word(self.hooks, self.device, self.word);
        if answer.is_err() {
            memory.leak();
        }
        note(answer);
    }
}

/// Calls the hook with any word: one that was not registered has to be refused.
pub(crate) fn unregister_word(hooks: &Hooks, device: u32, word: u64) -> Result<(), Error> {
    // SAFETY: `unregister_host` needs
    // - a registration that nobody has ended: the contract has the plugin refuse any other word.
    unsafe { hooks.unregister_host(device, pointer(word)) }
}

fn pointer(word: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(usize::try_from(word).unwrap_or(0))
}
