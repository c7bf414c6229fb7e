//! Runs a random program on an engine, and looks at the bytes where the program does.
#![expect(
    unsafe_code,
    reason = "submits work on memory that lives until the engine is drained"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossdock_sim_engine::{Access, Condition, Config, Report, Site, Stream, Strided, Word};

use crate::machine::{LIMIT, Machine};
use crate::model::{BYTES, How, Model, Part, Step};
use crate::programs::Program;

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) reports: Vec<Report>,
    pub(crate) wrong_bytes: Vec<String>,
    pub(crate) leaks: usize,
}

struct Run {
    machine: Machine,
    streams: Vec<Stream>,
    /// Addresses of all memories.
    memories: Vec<u64>,
    devices: usize,
    words: Vec<u64>,
    next_word: usize,
    called: Arc<AtomicUsize>,
    /// Whether host code really touches the bytes; in a wrong program it would race with workers.
    looks: bool,
    model: Model,
    wrong_bytes: Vec<String>,
}

/// Runs all steps, then waits for everything.
pub(crate) fn run(program: &Program, looks: bool) -> Outcome {
    let config = Config {
        policy: program.policy,
        queues: program.queues,
        seed: program.seed,
        memory_bytes: 1 << 20,
        idle: None,
        // The model cannot know when a host function runs.
        host_functions_inform: false,
        ..Config::default()
    };
    let machine = Machine::with(config);
    let mut host_memory = vec![[0_u8; BYTES]; program.memories - program.devices];
    let host = host_memory
        .iter_mut()
        .map(|bytes| crate::machine::address_mut(bytes));
    let devices = (0..program.devices).map(|_| machine.allocate(BYTES as u64));
    let memories: Vec<u64> = devices.chain(host).collect();
    let mut run = Run {
        streams: (0..program.streams).map(|_| machine.stream()).collect(),
        memories,
        devices: program.devices,
        words: vec![0; program.steps.len()],
        next_word: 0,
        called: Arc::default(),
        looks,
        model: Model::new(program.streams, program.memories),
        wrong_bytes: Vec::new(),
        machine,
    };
    for device in 0..run.devices {
        run.zero(device);
    }
    for &step in &program.steps {
        run.step(step);
        run.model.take(step);
    }
    run.end(program)
}

impl Run {
    fn stream(&self, stream: usize) -> Stream {
        self.streams[stream - 1]
    }

    fn address(&self, part: Part) -> u64 {
        self.memories[part.memory] + part.from as u64
    }

    fn step(&mut self, step: Step) {
        let machine = &self.machine;
        match step {
            Step::Copy { stream, to, from } => {
                let (to, from, bytes) = (self.address(to), self.address(from), to.bytes as u64);
                machine.copy("copy", self.stream(stream), to, from, bytes);
            }
            Step::Comb { stream, to, from } => self.comb(stream, to, from),
            Step::Fill { stream, to, value } => {
                let (at, bytes) = (self.address(to), to.bytes as u64);
                machine.fill("fill", self.stream(stream), at, bytes, value);
            }
            Step::Edge { from, to, how } => self.edge(from, to, how),
            Step::Late { stream, to, value } => {
                let event = machine.host_event();
                machine.wait(self.stream(stream), event);
                self.host_write(to, value);
                machine
                    .0
                    .complete(Site::here("complete"), event, Ok(()))
                    .expect("completion");
                machine
                    .0
                    .destroy_event(Site::here("destroy_event"), event)
                    .expect("destruction");
            }
            Step::Look { at } => self.look(at),
            Step::Renew { memory, stream } => self.renew(memory, stream),
            Step::Query { stream } => {
                let site = Site::here("query_stream");
                machine
                    .0
                    .query_stream(site, self.stream(stream))
                    .expect("an answer");
            }
            Step::Call { stream } => {
                let called = Arc::clone(&self.called);
                let function = move || _ = called.fetch_add(1, Ordering::SeqCst);
                let (site, stream) = (Site::here("host_call"), self.stream(stream));
                machine
                    .0
                    .host_call(site, stream, Box::new(function))
                    .expect("a host call");
            }
            Step::Change { stream } => {
                let site = Site::here("destroy_stream");
                machine
                    .0
                    .destroy_stream(site, self.stream(stream))
                    .expect("destruction");
                self.streams[stream - 1] = self.machine.stream();
            }
        }
    }

    fn comb(&self, stream: usize, to: Part, from: Part) {
        let side = |part| Strided {
            address: self.address(part),
            bit_offset: 0,
            strides: vec![2],
        };
        let shape = [to.bytes.div_ceil(2) as u64];
        let (site, stream) = (Site::here("comb"), self.stream(stream));
        let sides = (&side(to), &side(from));
        // SAFETY: all memories live until the engine is drained.
        unsafe { self.machine.0.copy_strided(site, stream, 8, &shape, sides) }.expect("a copy");
    }

    fn edge(&mut self, from: usize, to: usize, how: How) {
        let machine = &self.machine;
        match how {
            How::Host => machine.synchronize(self.stream(from)).expect("no failure"),
            How::HostEvent => {
                let event = machine.event();
                machine.record(event, self.stream(from));
                let site = Site::here("synchronize_event");
                machine
                    .0
                    .synchronize_event(site, event, Some(LIMIT))
                    .expect("no failure");
                machine
                    .0
                    .destroy_event(Site::here("destroy_event"), event)
                    .expect("destruction");
            }
            How::Event => {
                let event = machine.event();
                machine.record(event, self.stream(from));
                machine.wait(self.stream(to), event);
                machine
                    .0
                    .destroy_event(Site::here("destroy_event"), event)
                    .expect("destruction");
            }
            How::Word => {
                let address = crate::machine::address(&self.words[self.next_word..]);
                self.next_word += 1;
                let word = Word {
                    address,
                    bits: 64,
                    value: 1,
                };
                let (from, to) = (self.stream(from), self.stream(to));
                // SAFETY: the words live until the engine is drained.
                unsafe { machine.0.write_word(Site::here("write_word"), from, word) }.expect("ok");
                let site = Site::here("wait_word");
                // SAFETY: as above.
                unsafe { machine.0.wait_word(site, to, word, Condition::Equal) }.expect("ok");
            }
        }
    }

    fn host_view(&self, part: Part) -> *mut u8 {
        let at = self.address(part);
        match self.machine.0.host_view(at) {
            Some(view) => view.as_ptr(),
            None => std::ptr::with_exposed_provenance_mut(at as usize),
        }
    }

    fn host_write(&self, to: Part, value: u8) {
        self.machine.0.touch(
            Site::here("touch"),
            self.address(to),
            to.bytes as u64,
            Access::Write,
        );
        if self.looks {
            // SAFETY: the memory lives, and no operation uses these bytes now: the program is right.
            unsafe { self.host_view(to).write_bytes(value, to.bytes) };
        }
    }

    fn look(&mut self, at: Part) {
        self.machine.0.touch(
            Site::here("look"),
            self.address(at),
            at.bytes as u64,
            Access::Read,
        );
        if self.looks {
            let view = self.host_view(at);
            // SAFETY: as in `host_write`.
            let seen = unsafe { std::slice::from_raw_parts(view, at.bytes) };
            let right = &self.model.bytes[at.memory][at.from..][..at.bytes];
            if seen != right {
                self.wrong_bytes
                    .push(format!("{at:?}: {seen:?} and not {right:?}"));
            }
        }
    }

    fn zero(&self, memory: usize) {
        self.host_write(
            Part {
                memory,
                from: 0,
                bytes: BYTES,
            },
            0,
        );
    }

    fn renew(&mut self, memory: usize, stream: usize) {
        let engine = self.machine.0.clone();
        if stream == 0 {
            engine
                .free(Site::here("free"), self.memories[memory])
                .expect("a free");
            self.memories[memory] = self.machine.allocate(BYTES as u64);
            self.zero(memory);
            return;
        }
        let on = self.stream(stream);
        engine
            .free_on(Site::here("free_on"), on, self.memories[memory])
            .expect("a free");
        let site = Site::here("allocate_on");
        self.memories[memory] = engine.allocate_on(site, on, BYTES as u64).expect("memory");
        self.machine
            .fill("zero", on, self.memories[memory], BYTES as u64, 0);
    }

    fn end(mut self, program: &Program) -> Outcome {
        let site = Site::here("synchronize_device");
        let engine = self.machine.0.clone();
        engine
            .synchronize_device(site, 0, Some(LIMIT))
            .expect("all work ends");
        self.machine.drain();
        for memory in 0..self.memories.len() {
            self.look(Part {
                memory,
                from: 0,
                bytes: BYTES,
            });
        }
        let calls = program
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Call { .. }))
            .count();
        if self.called.load(Ordering::SeqCst) != calls {
            self.wrong_bytes
                .push("a host function was not called exactly once".to_owned());
        }
        for &memory in &self.memories[..self.devices] {
            engine.free(Site::here("free"), memory).expect("a free");
        }
        for &stream in &self.streams {
            engine
                .destroy_stream(Site::here("destroy_stream"), stream)
                .expect("destruction");
        }
        let leaks = engine.leaks().len();
        Outcome {
            reports: engine.take_reports(),
            wrong_bytes: self.wrong_bytes,
            leaks,
        }
    }
}
