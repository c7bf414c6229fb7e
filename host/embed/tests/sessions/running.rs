//! What scripts are given and what they give: text, files, modules, values, calls.

use std::sync::Arc;
use std::thread;

use crossdock_embed::{Kind, Session, Settings, Value};

use crate::rig::{Child, has_module, in_children, number, rounds, run, try_run};

in_children! {
    values_come_back_as_they_went: values;
    values_come_back_from_a_python_of_others (of_others): values;
    a_session_is_a_module_of_its_own: modules;
    files_and_modules_run_as_python_runs_them: files;
    what_is_raised_comes_with_its_traceback: tracebacks;
    what_lies_when_it_is_looked_at_is_an_error_like_all_others: liars;
    numpy_survives_close_and_open: numpy;
    two_threads_call_at_once: threads;
    a_session_that_never_waits_is_busy: busy;
    calls_leave_nothing_behind: leaks;
    what_a_script_gives_and_memory_does_not_hold_is_an_error: memory;
}

fn same(session: &Session, value: Value) {
    let shown = format!("{value:?}");
    session.set("it", value).unwrap();
    assert_eq!(format!("{:?}", session.get("it").unwrap()), shown);
}

fn values(child: &Child) {
    let session = child.session();
    same(&session, Value::None);
    same(&session, Value::Bool(true));
    same(&session, Value::Int(i64::MIN));
    same(&session, Value::Float(-1.0));
    same(&session, Value::Text("grüße \0 €".to_owned()));
    same(&session, Value::Bytes(vec![0, 255]));
    collections(&session);
    run(
        &session,
        "def f(a, *rest, k=0): return a + k + sum(rest)\nclass C: m = staticmethod(f)\nc = C()",
    );
    let call = |name, named| session.call(name, vec![Value::Int(1), Value::Int(2)], named, None);
    let named = vec![("k".to_owned(), Value::Int(10))];
    assert!(matches!(call("f", named), Ok(Value::Int(13))));
    assert!(matches!(call("c.m", Vec::new()), Ok(Value::Int(3))));
    assert!(matches!(
        call("operator:sub", Vec::new()),
        Ok(Value::Int(-1))
    ));
    assert!(matches!(
        session.get("math:inf"),
        Ok(Value::Float(f64::INFINITY))
    ));
    let refused = |text: &str| {
        run(&session, &format!("it = {text}"));
        session.get("it").unwrap_err().exception.unwrap()
    };
    assert_eq!(refused("2**63"), "OverflowError");
    assert_eq!(refused("{1, 2}"), "TypeError");
    assert_eq!(refused("[1, object()]"), "TypeError");
    assert_eq!(session.get("missing").unwrap_err().kind, Kind::Exception);
    let missing = session.get("missing").unwrap_err().message;
    assert_eq!(missing, "get `missing` of a script");
    let raised = call("f", vec![("other".to_owned(), Value::None)]).unwrap_err();
    assert_eq!(raised.message, "call `f` of a script");
    run(&session, "import sys\nsys.modules['crossdock'] = None");
    let lacking = session.get_tensor("c", None).unwrap_err();
    assert_eq!(lacking.exception.as_deref(), Some("ModuleNotFoundError"));
    assert!(lacking.why().contains(" -m pip install "), "{lacking}");
}

fn collections(session: &Session) {
    let texts = |texts: [&str; 2]| Value::List(texts.map(|text| Value::Text(text.into())).into());
    same(session, Value::List(Vec::new()));
    same(session, Value::Dict(Vec::new()));
    let number = || Value::List(vec![Value::Int(1), Value::List(vec![Value::None])]);
    same(session, number());
    let key = |key: &str| Value::Text(key.to_owned());
    let pairs = vec![
        (key("z"), number()),
        (
            key("a"),
            Value::Dict(vec![(Value::Int(3), texts(["x", ""]))]),
        ),
    ];
    session.set("d", Value::Dict(pairs)).unwrap();
    run(
        session,
        "assert d == {'z': [1, [None]], 'a': {3: ['x', '']}} and list(d) == ['z', 'a']",
    );
    run(session, "it = ('x', 'y')");
    let got = session.get("it").unwrap();
    assert_eq!(format!("{got:?}"), format!("{:?}", texts(["x", "y"])));
    let colliding = Value::Dict(vec![
        (Value::Int(1), Value::None),
        (Value::Bool(true), Value::None),
    ]);
    let failure = session.set("it", colliding).unwrap_err();
    assert_eq!(failure.exception.unwrap(), "ValueError");
    let unhashable = Value::Dict(vec![(number(), Value::None)]);
    let failure = session.set("it", unhashable).unwrap_err();
    assert_eq!(failure.exception.unwrap(), "TypeError");

    run(
        session,
        "it = []\nfor _ in range(62): it = [it]\ndeep = [it]",
    );
    session.get("deep").unwrap();
    run(session, "deeper = [deep]\nround = []\nround.append(round)");
    for name in ["deeper", "round"] {
        let failure = session.get(name).unwrap_err();
        assert_eq!(failure.exception.as_deref(), Some("ValueError"), "{name}");
    }
}

fn modules(child: &Child) {
    let (first, second) = (child.session(), child.session());
    run(
        &first,
        "import sys, dataclasses, pickle\nassert __name__ == '__main__'\nx = 1",
    );
    run(
        &first,
        "@dataclasses.dataclass\nclass P:\n    n: int\nassert pickle.loads(pickle.dumps(P(3))) == P(3)",
    );
    run(
        &first,
        "import __main__\nassert __main__.x == 1 and sys.argv == ['']",
    );
    run(
        &second,
        "import sys\nassert __name__.startswith('__xd_') and __name__ in sys.modules",
    );
    assert_eq!(
        second.get("x").unwrap_err().exception.unwrap(),
        "AttributeError"
    );
    let settings = || Settings {
        name: Some("filters".to_owned()),
        arguments: vec!["filters.py".to_owned(), "--fast".to_owned()],
        ..Settings::default()
    };
    let named = Session::open(child.host, settings()).unwrap();
    run(
        &named,
        "import sys\nassert __name__ == '__xd_filters__' and sys.argv[1:] == ['--fast']",
    );
    let failure = Session::open(child.host, settings()).unwrap_err();
    assert_eq!(failure.exception.unwrap(), "ValueError");
    drop(named);
    Session::open(child.host, settings()).unwrap();
}

fn files(child: &Child) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("main.py");
    std::fs::write(folder.path().join("beside.py"), "value = 7\n").unwrap();
    std::fs::create_dir(folder.path().join("package")).unwrap();
    std::fs::write(
        folder.path().join("package/__main__.py"),
        "where = __spec__.name\n",
    )
    .unwrap();
    std::fs::write(
        &file,
        "# coding: latin-1\nimport sys, beside\ngot = beside.value\nargv = sys.argv[0]\nhere = __file__\n",
    )
    .unwrap();
    let session = child.session();
    session.run_file(&file, None).unwrap();
    assert_eq!(number(&session, "got"), 7);
    run(
        &session,
        "assert argv == here and here.endswith('main.py'), (argv, here)",
    );
    let failure = session
        .run_file(&folder.path().join("none.py"), None)
        .unwrap_err();
    assert_eq!(failure.exception.unwrap(), "FileNotFoundError");
    session.run_module("package", None).unwrap();
    run(
        &session,
        "assert where == 'package.__main__'\nimport sys\nassert sys.path.count(sys.path[0]) == 1",
    );
    let failure = session.run_module("no_such_module", None).unwrap_err();
    assert_eq!(failure.exception.unwrap(), "ImportError");
    let other = child.session();
    run(
        &other,
        &format!("import sys\nassert {:?} not in sys.path", folder.path()),
    );
}

fn tracebacks(child: &Child) {
    let session = child.session();
    let text = "def f():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n        raise ValueError('no') from e\nf()\n";
    let failure = try_run(&session, text).unwrap_err();
    assert_eq!(failure.kind, Kind::Exception);
    assert_eq!(failure.exception.as_deref(), Some("ValueError"));
    let trace = failure.traceback.unwrap();
    for line in [
        "Traceback (most recent call last):\n  File \"script.py\", line 3, in f\n    1 / 0",
        "The above exception was the direct cause of the following exception:",
        "  File \"script.py\", line 6, in <module>\n    f()",
        "ValueError: no",
    ] {
        assert!(trace.contains(line), "{trace}");
    }
    assert!(!trace.contains("<crossdock>"), "{trace}");
    // The line that its author has written, and not one of a library.
    let failure = try_run(&session, text).unwrap_err();
    assert!(failure.hint().contains("script.py:5"), "{failure}");
    let failure = try_run(&session, "import json\njson.loads('x')").unwrap_err();
    assert!(failure.hint().contains("script.py:2"), "{failure}");
    let failure = session.call("nope", Vec::new(), Vec::new(), None);
    let failure = failure.unwrap_err();
    let hint = "run the script that defines it first";
    assert!(failure.hint().contains(hint), "{failure}");
    let failure = try_run(
        &session,
        "class E(Exception):\n    def __str__(self): raise self\nraise E",
    )
    .unwrap_err();
    assert_eq!(failure.exception.as_deref(), Some("__main__.E"));
    let failure = try_run(&session, "a b").unwrap_err();
    assert!(failure.traceback.unwrap().contains("SyntaxError"));
    // What was raised without anybody's interrupt is the script's own.
    let failure = try_run(&session, "raise KeyboardInterrupt").unwrap_err();
    assert_eq!(failure.kind, Kind::Exception);
}

/// Exceptions and values whose own methods say something else than Python does.
const LIARS: [(&str, &str); 10] = [
    (
        "class M(type):\n    def __getattribute__(c, name): 1 / 0\nclass E(Exception, metaclass=M): pass",
        "raise E",
    ),
    ("class E(Exception): __module__ = 7", "raise E"),
    (
        "class S(str):\n    def encode(self, *a): return 5\nclass E(Exception):\n    def __str__(self): return S('x')",
        "raise E",
    ),
    (
        "class E(Exception): __class__ = property(lambda self: SystemExit)",
        "raise E",
    ),
    (
        "class E(Exception): __traceback__ = __cause__ = property(lambda self: 1 / 0)",
        "raise E",
    ),
    (
        "class I(int):\n    def __le__(self, other): return True\n    __ge__ = __gt__ = __lt__ = __le__",
        "it = I(2**70)",
    ),
    ("class PyCapsule: pass", "it = PyCapsule()"),
    ("import datetime", "it = datetime.datetime_CAPI"),
    (
        "class T: __dlpack__ = property(lambda self: 1 / 0)",
        "it = T()",
    ),
    (
        "class B(bytes):\n    def __bytes__(self): raise SystemError",
        "it = B(b'x')",
    ),
];

fn liars(child: &Child) {
    let session = child.session();
    for (class, text) in LIARS {
        run(&session, class);
        let done = try_run(&session, text).and_then(|()| session.get("it"));
        let failure = done.unwrap_err();
        assert_eq!(failure.kind, Kind::Exception, "{text}");
        assert!(failure.exception.is_some(), "{text}: {failure}");
        assert!(failure.traceback.is_some(), "{text}: {failure}");
    }
    run(
        &session,
        "class S(str):\n    def encode(self, *a): return 5\nit = S('x')",
    );
    assert!(matches!(session.get("it"), Ok(Value::Text(text)) if text == "x"));
}

fn numpy(child: &Child) {
    let session = child.session();
    if !has_module(&session, "numpy") {
        return;
    }
    run(&session, "import numpy\nx = int(numpy.arange(4).sum())");
    assert_eq!(number(&session, "x"), 6);
    drop(session);
    let session = child.session();
    assert_eq!(
        session.get("x").unwrap_err().exception.unwrap(),
        "AttributeError"
    );
    run(
        &session,
        "import numpy\nassert __name__ == '__main__'\ny = numpy.float32(2.5)\nz = numpy.int8(3)",
    );
    assert!(matches!(session.get("y"), Ok(Value::Float(2.5))));
    assert_eq!(number(&session, "z"), 3);
}

fn threads(child: &Child) {
    let session = Arc::new(child.session());
    run(
        &session,
        "n = 0\ndef add(by):\n    global n\n    before = n\n    n = before + by\n    return n",
    );
    let rounds = 200;
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let session = Arc::clone(&session);
            thread::spawn(move || {
                for _ in 0..rounds {
                    session
                        .call("add", vec![Value::Int(1)], Vec::new(), None)
                        .unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    assert_eq!(number(&session, "n"), 4 * rounds);
}

fn busy(child: &Child) {
    let (first, lines) = child.heard(Settings::default());
    let impatient = Session::open(
        child.host,
        Settings {
            never_waits: true,
            ..Settings::default()
        },
    )
    .unwrap();
    run(&impatient, "x = 1");
    thread::scope(|scope| {
        let runs = scope.spawn(|| try_run(&first, "print('in')\nwhile True: pass"));
        lines.recv().unwrap();
        assert_eq!(try_run(&impatient, "x = 2").unwrap_err().kind, Kind::Busy);
        first.interrupt().unwrap();
        assert_eq!(runs.join().unwrap().unwrap_err().kind, Kind::Interrupted);
    });
    run(&impatient, "assert x == 1");
    // What is freed is not a script.
    for round in 0..50 {
        drop(child.session());
        run(&impatient, &format!("x = {round}"));
    }
}

/// Lets a process have so many bytes more than it has; `None`: as many as there are.
fn limit_memory(more: Option<usize>) {
    // SAFETY: asks for a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split_whitespace().next().unwrap().parse().unwrap();
    let limit = libc::rlimit {
        rlim_cur: more.map_or(libc::RLIM_INFINITY, |more| (pages * page + more) as u64),
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a limit that is whole.
    let failed = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(failed, 0);
}

fn memory(child: &Child) {
    const MANY: usize = 1 << 27;
    let (session, lines) = child.heard(Settings::default());
    // Loads what a failure is told with.
    try_run(&session, "raise MemoryError").unwrap_err();
    run(
        &session,
        &format!(
            "import sys\nmany = {MANY}\nb = bytes(many)\nt = 'x' * many\nclass E(Exception):\n\
             \x20   def __str__(self): return t\ndef f(): raise E"
        ),
    );
    let (little, one_copy) = (Some(MANY / 4), Some(MANY + MANY / 4));
    // Python encodes a text before it is copied.
    for (name, more) in [("b", little), ("t", one_copy)] {
        limit_memory(more);
        let error = session.get(name).unwrap_err();
        limit_memory(None);
        assert_eq!(error.kind, Kind::Exhausted, "{name}: {error}");
        assert_eq!(error.message, format!("get `{name}` of a script"));
    }
    let argument = Value::Bytes(vec![0; MANY]);
    limit_memory(little);
    let error = session.set("c", argument).unwrap_err();
    limit_memory(None);
    assert_eq!(error.kind, Kind::Exhausted, "{error}");
    // What is written is copied twice as well; the script is told.
    limit_memory(one_copy);
    let error = try_run(&session, "sys.stdout.buffer.write(b)").unwrap_err();
    limit_memory(None);
    assert_eq!(error.exception.as_deref(), Some("MemoryError"), "{error}");
    // A message goes to the host several times; Python needs memory for a traceback of it, too.
    for (more, place) in [(one_copy, ""), (None, "in f\n")] {
        limit_memory(more);
        let error = session.call("f", Vec::new(), Vec::new(), None).unwrap_err();
        limit_memory(None);
        assert_eq!(error.exception.as_deref(), Some("__main__.E"));
        assert!(error.why().starts_with("__main__.E: xxx"));
        let traceback = error.traceback.clone().unwrap();
        assert!(traceback.contains(place), "{}", &traceback[..999]);
        assert!(error.why().len().max(traceback.len()) < MANY / 8);
    }
    assert!(matches!(session.get("b"), Ok(Value::Bytes(bytes)) if bytes.len() == MANY));
    run(&session, "print('on')");
    assert!(lines.iter().any(|line| line == "on\n"));
}

/// Kilobytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn leaks(child: &Child) {
    let session = child.session();
    run(
        &session,
        "def f(text, data): return text * 2\ndef g(): raise ValueError('x' * 1000)",
    );
    let once = || {
        let arguments = vec![Value::Text("a".repeat(500)), Value::Bytes(vec![1; 500])];
        session.call("f", arguments, Vec::new(), None).unwrap();
        session.call("g", Vec::new(), Vec::new(), None).unwrap_err();
    };
    let rounds = rounds(3000, 50_000);
    (0..rounds / 5).for_each(|_| once());
    let before = resident();
    (0..rounds).for_each(|_| once());
    let grown = resident().saturating_sub(before);
    // A call that kept what it was given would take a kilobyte.
    assert!(grown < rounds / 2, "{grown} kB in {rounds} rounds");
}
