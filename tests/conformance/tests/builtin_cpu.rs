//! The suite on the CPU plugin that the runtime links in.

use crossdock::Runtime;
use crossdock_conformance::{Level, Outcome, Subject, run};

#[test]
fn the_built_in_cpu_plugin_passes_every_case() {
    let runtime = Runtime::builder().search(false).open().unwrap();
    let devices = runtime.devices();
    assert!(
        !devices.is_empty(),
        "the built-in CPU plugin offers no device"
    );
    for device in devices {
        let subject = Subject::new(device.plugin().hooks(), device.index()).unwrap();
        let report = run(&subject, Level::Full, None);
        println!("{report}");
        assert!(report.passed(), "{report}");
        assert!(report.cases.len() >= 35);
    }
}

#[test]
fn a_filter_picks_cases_by_a_part_of_their_name() {
    let runtime = Runtime::builder().search(false).open().unwrap();
    let device = runtime.devices().into_iter().next().unwrap();
    let subject = Subject::new(device.plugin().hooks(), device.index()).unwrap();
    let report = run(&subject, Level::Core, Some("host_event_completes_once"));
    let [case] = report.cases.as_slice() else {
        panic!("{report}")
    };
    assert_eq!(case.outcome, Outcome::Passed);
    assert!(
        run(&subject, Level::Full, Some("no such case"))
            .cases
            .is_empty()
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["cases"][0]["outcome"], "passed");
    assert_eq!(json["level"], "core");
}
