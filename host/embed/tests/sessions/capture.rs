//! What scripts print, and where it goes.

use std::sync::{Arc, Mutex};

use crossdock_embed::{Session, Settings, Stream};

use crate::rig::{Child, has_module, in_children, run, try_run};

in_children! {
    streams_look_like_files: streams;
    tqdm_draws_into_a_captured_stream: tqdm;
    rich_draws_into_a_captured_stream: rich;
    logging_goes_where_it_was_told_to: logging;
    faulthandler_writes_to_the_stream_of_the_process: faults;
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
}

fn tqdm(child: &Child) {
    let (session, heard) = heard(child);
    if !has_module(&session, "tqdm") {
        return;
    }
    run(
        &session,
        "import tqdm\nwith tqdm.tqdm(total=3, desc='läuft', mininterval=0) as bar:\n\
         \x20   for _ in range(3): bar.update()\n\
         \x20   tqdm.tqdm.write('between')",
    );
    let bar = taken(&heard, Stream::Err);
    for part in ["\rläuft:   0%|", "1/3", "3/3", "\n"] {
        assert!(bar.contains(part), "{bar:?}");
    }
    assert_eq!(taken(&heard, Stream::Out), "between\n");
}

fn rich(child: &Child) {
    let (session, heard) = heard(child);
    if !has_module(&session, "rich.console") {
        return;
    }
    run(
        &session,
        "from rich.console import Console\nfrom rich.progress import track\n\
         console = Console()\nassert not console.is_terminal\n\
         console.print('[bold]thick[/] ü')\nconsole.print({'a': 1})\n\
         console.rule('here')\nprint(list(track(range(2), console=console)))\n\
         Console(stderr=True).print('[red]wrong[/]')",
    );
    let drawn = taken(&heard, Stream::Out);
    assert!(drawn.starts_with("thick ü\n{'a': 1}\n─"), "{drawn:?}");
    assert!(
        drawn.contains("here") && drawn.contains("100%"),
        "{drawn:?}"
    );
    assert!(
        !drawn.contains('\u{1b}'),
        "colours are for terminals: {drawn:?}"
    );
    assert_eq!(taken(&heard, Stream::Err), "wrong\n");
    let failure = try_run(
        &session,
        "import rich.traceback\nrich.traceback.install()\n1 / 0",
    );
    assert!(
        failure
            .unwrap_err()
            .traceback
            .unwrap()
            .contains("ZeroDivisionError")
    );
}

fn logging(child: &Child) {
    let (session, heard) = heard(child);
    run(
        &session,
        "import logging, warnings\nlogging.warning('careful')\nwarnings.warn('odd')",
    );
    let complaint = taken(&heard, Stream::Err);
    assert!(complaint.contains("WARNING:root:careful"), "{complaint}");
    assert!(complaint.contains("UserWarning: odd"), "{complaint}");
    run(
        &session,
        "import sys\nlogging.basicConfig(stream=sys.stdout, force=True, level='INFO', format='%(message)s')\n\
         logging.info('grüße %d', 1)\nimport threading\n\
         t = threading.Thread(target=logging.info, args=('thread',)); t.start(); t.join()",
    );
    assert_eq!(taken(&heard, Stream::Out), "grüße 1\nthread\n");
    assert_eq!(taken(&heard, Stream::Err), "");
}

fn faults(child: &Child) {
    let (session, heard) = heard(child);
    // What is written from within a signal's handler needs a descriptor, which a function has not.
    run(
        &session,
        "import faulthandler, io, os, sys\n\
         try: faulthandler.enable()\n\
         except io.UnsupportedOperation: pass\n\
         else: raise AssertionError\n\
         faulthandler.enable(sys.__stderr__)\nassert faulthandler.is_enabled()\n\
         faulthandler.disable()\n\
         r, w = os.pipe()\n\
         def here(): faulthandler.dump_traceback(w, all_threads=False)\n\
         here()\nassert b' in here' in os.read(r, 10000)\n\
         faulthandler.dump_traceback_later(60, file=w)\nfaulthandler.cancel_dump_traceback_later()",
    );
    assert_eq!(taken(&heard, Stream::Err), "");
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
