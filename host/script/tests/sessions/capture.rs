//! What scripts print, and where it goes.

use std::sync::{Arc, Mutex};

use crossdock_script::{Session, Settings, Stream};

use crate::rig::{Child, has_module, in_children, run, try_run};

in_children! {
    streams_look_like_files: streams;
    each_session_hears_its_own_scripts: apart;
    output_of_a_session_that_is_gone_goes_nowhere: gone;
    a_function_that_panics_fails_the_script_and_keeps_nobody_waiting: panics;
}

type Heard = Arc<Mutex<Vec<(Stream, String)>>>;

fn heard(child: &Child) -> (Session, Heard) {
    let heard = Heard::default();
    let to = Arc::clone(&heard);
    let settings = Settings {
        stdout: true,
        stderr: true,
        output: Some(Box::new(move |stream, bytes| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            to.lock().unwrap().push((stream, text));
        })),
        ..Settings::default()
    };
    (Session::open(child.host, settings).unwrap(), heard)
}

/// What came on one stream since it was asked last.
fn taken(heard: &Heard, from: Stream) -> String {
    let mut heard = heard.lock().unwrap();
    let text = heard.iter().filter(|(stream, _)| *stream == from);
    let text = text.map(|(_, text)| text.as_str()).collect();
    heard.retain(|(stream, _)| *stream != from);
    text
}

fn streams(child: &Child) {
    let (session, heard) = heard(child);
    run(
        &session,
        "import io, sys\n\
         for s in (sys.stdout, sys.stderr):\n\
         \x20   assert not s.isatty() and s.encoding == 'utf-8' and s.errors and s.writable()\n\
         \x20   try: s.fileno()\n\
         \x20   except io.UnsupportedOperation: pass\n\
         \x20   else: raise AssertionError\n\
         sys.stdout.buffer.write(b'raw\\n')\n\
         sys.stdout.reconfigure(line_buffering=True)\n\
         print('a', 'ü', end='', flush=True)\n\
         print('\\ud800')\n\
         print('left', end='')",
    );
    assert_eq!(taken(&heard, Stream::Out), "raw\na ü\\ud800\nleft");
    run(
        &session,
        "import faulthandler\nfaulthandler.enable(sys.__stderr__)",
    );
    run(
        &session,
        "import logging, warnings\nlogging.warning('careful')\nwarnings.warn('odd')",
    );
    let complaint = taken(&heard, Stream::Err);
    assert!(complaint.contains("WARNING:root:careful"), "{complaint}");
    assert!(complaint.contains("UserWarning: odd"), "{complaint}");
    if has_module(&session, "tqdm") {
        run(&session, "for _ in tqdm.tqdm(range(3)): pass");
        assert!(taken(&heard, Stream::Err).contains("3/3"));
    }
    if has_module(&session, "rich.console") {
        run(&session, "rich.console.Console().print('[bold]rich[/]')");
        assert!(taken(&heard, Stream::Out).contains("rich"));
    }
}

fn apart(child: &Child) {
    let ((one, by_one), (two, by_two)) = (heard(child), heard(child));
    run(&one, "import sys\ndef say(): print('one')\nsay()");
    run(&two, "print('two')");
    let raised = try_run(&two, "print('before'); raise ValueError").unwrap_err();
    assert!(raised.traceback.is_some());
    assert_eq!(taken(&by_one, Stream::Out), "one\n");
    assert_eq!(taken(&by_two, Stream::Out), "two\nbefore\n");
    assert_eq!(taken(&by_two, Stream::Err), "");
    let plain = child.session();
    run(&plain, "import sys\nassert sys.stdout is sys.__stdout__");
}

fn gone(child: &Child) {
    let (session, by_it) = heard(child);
    let other = child.session();
    run(
        &session,
        "import sys, builtins\nbuiltins.kept = sys.stdout\nprint('in')",
    );
    drop(session);
    run(&other, "kept.write('late\\n')\nkept.flush()");
    assert_eq!(taken(&by_it, Stream::Out), "in\n");
    drop(other);
    assert_eq!(Arc::strong_count(&by_it), 1);
}

fn panics(child: &Child) {
    let settings = Settings {
        stdout: true,
        output: Some(Box::new(|_, _| panic!("a bug of the host"))),
        ..Settings::default()
    };
    let session = Session::open(child.host, settings).unwrap();
    try_run(&session, "print('now')").unwrap_err();
    // Waits for calls that are under way.
    drop(session);
    run(&child.session(), "x = 1");
}
