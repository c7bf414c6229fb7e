//! A program that changes on disk and is loaded again.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crossdock_embed::{Kind, Limits, Value};

use crate::rig::{Child, in_children, number, rounds, run, try_run};

in_children! {
    reload_leaves_nothing_old: everything_is_new;
    a_reload_that_fails_leaves_everything_as_it_was: failures;
    a_module_that_was_run_is_loaded_again: modules;
    pythons_own_library_is_not_loaded_again: library;
    a_reload_that_is_stopped_leaves_everything_as_it_was: stopped;
    reloads_are_flat_in_memory: memory;
}

/// A program of three modules, one in a package, of a version.
fn write(folder: &Path, version: i64) {
    fs::create_dir_all(folder.join("parts")).unwrap();
    fs::write(folder.join("parts/__init__.py"), "").unwrap();
    fs::write(
        folder.join("parts/deep.py"),
        format!("def f(): return {version}\n"),
    )
    .unwrap();
    fs::write(
        folder.join("beside.py"),
        format!("def f(): return {version}\n"),
    )
    .unwrap();
    let main = format!(
        "import json, beside, parts.deep\nfrom parts.deep import f\n\
         def versions(): return beside.f() + f() + parts.deep.f() + {version}\n\
         only_{version} = 1\n"
    );
    fs::write(folder.join("main.py"), main).unwrap();
}

fn everything_is_new(child: &Child) {
    let (folder, session) = (tempfile::tempdir().unwrap(), child.session());
    let refused = session.reload(None).unwrap_err();
    assert_eq!(refused.kind, Kind::Exception);
    assert!(refused.why().contains("nothing to load again"), "{refused}");
    write(folder.path(), 1);
    session.set("given", Value::Int(5)).unwrap();
    session
        .define("ask", Box::new(|_, _| Ok(Value::Int(9))))
        .unwrap();
    session
        .run_file(&folder.path().join("main.py"), None)
        .unwrap();
    assert_eq!(number(&session, "only_1"), 1);
    run(
        &session,
        "import sys\nold = [sys.modules[n] for n in ('json', 'beside', 'parts.deep')]",
    );
    run(&session, "sys.old = old\nleft = 1");
    // As long as before, and within the same second.
    write(folder.path(), 2);
    session.reload(None).unwrap();
    let versions = session.call("versions", Vec::new(), Vec::new(), None);
    assert!(matches!(versions, Ok(Value::Int(8))), "{versions:?}");
    run(
        &session,
        "import sys\njson, beside, deep = sys.old\n\
         assert sys.modules['json'] is json and sys.modules['beside'] is not beside\n\
         assert sys.modules['parts.deep'] is not deep and 'only_1' not in globals()\n\
         assert 'left' not in globals() and only_2 and given == 5 and ask() == 9\n\
         assert __name__ == '__main__' and sys.modules[__name__].only_2",
    );
}

fn failures(child: &Child) {
    let (folder, session) = (tempfile::tempdir().unwrap(), child.session());
    write(folder.path(), 1);
    session
        .run_file(&folder.path().join("main.py"), None)
        .unwrap();
    run(
        &session,
        "left = 1\nimport sys\nsys.old = sys.modules['parts.deep'], sys.modules['beside']",
    );
    write(folder.path(), 2);
    fs::write(folder.path().join("beside.py"), "import parts.deep, gone\n").unwrap();
    let failure = session.reload(None).unwrap_err();
    assert_eq!(failure.exception.as_deref(), Some("ModuleNotFoundError"));
    let versions = session.call("versions", Vec::new(), Vec::new(), None);
    assert!(matches!(versions, Ok(Value::Int(4))), "{versions:?}");
    run(
        &session,
        "assert left and sys.modules['parts.deep'] is sys.old[0]\n\
         assert sys.modules['beside'] is sys.old[1]",
    );
    write(folder.path(), 3);
    session.reload(None).unwrap();
    assert_eq!(number(&session, "only_3"), 1);
}

fn modules(child: &Child) {
    let (folder, session) = (tempfile::tempdir().unwrap(), child.session());
    write(folder.path(), 1);
    fs::write(
        folder.path().join("parts/__main__.py"),
        "from parts import deep\nv = deep.f()\n",
    )
    .unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    session.set("path", Value::Text(path)).unwrap();
    run(&session, "import sys\nsys.path.insert(0, path)");
    session.run_module("parts", None).unwrap();
    assert_eq!(number(&session, "v"), 1);
    write(folder.path(), 2);
    session.reload(None).unwrap();
    assert_eq!(number(&session, "v"), 2);
    let failure = try_run(&session, "left").unwrap_err();
    assert_eq!(failure.exception.as_deref(), Some("NameError"));
}

fn library(child: &Child) {
    let session = child.session();
    session.run_module("this", None).unwrap();
    run(
        &session,
        "import sys, os, json\nsys.old = dict(sys.modules)",
    );
    session.reload(None).unwrap();
    run(
        &session,
        "import sys\nassert all(sys.modules.get(n) is m for n, m in sys.old.items() if n != 'this')",
    );
}

fn stopped(child: &Child) {
    let (folder, session) = (tempfile::tempdir().unwrap(), child.session());
    write(folder.path(), 1);
    let file = folder.path().join("main.py");
    session.run_file(&file, None).unwrap();
    run(
        &session,
        "left = 1\nimport sys\nsys.old = sys.modules['parts.deep']",
    );
    fs::write(&file, "import beside\nwhile True: pass\n").unwrap();
    for _ in 0..rounds(20, 500) {
        let limits = Limits {
            timeout: Some(Duration::from_millis(3)),
            ..Limits::default()
        };
        // Python's own code may turn an exception between two of its lines into another one.
        session.reload(Some(limits)).unwrap_err();
        run(
            &session,
            "assert left == only_1 == 1 and sys.modules['parts.deep'] is sys.old",
        );
        run(&session, "assert versions() == 4");
    }
}

/// What this process has in memory, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn memory(child: &Child) {
    let (folder, session) = (tempfile::tempdir().unwrap(), child.session());
    write(folder.path(), 1);
    let file = folder.path().join("main.py");
    let main = fs::read_to_string(&file).unwrap();
    // What stayed of a version would be a MiB.
    fs::write(
        &file,
        format!("{main}data = bytearray(1 << 20)\ndata[:] = b'x' * len(data)\n"),
    )
    .unwrap();
    session.run_file(&file, None).unwrap();
    let reload = |times| (0..times).for_each(|_| session.reload(None).unwrap());
    let all = rounds(100, 1000);
    reload(all / 10);
    let before = resident();
    reload(all - all / 10);
    let more = resident().saturating_sub(before);
    assert!(more < 4096, "{more} KiB more after {all} reloads");
}
