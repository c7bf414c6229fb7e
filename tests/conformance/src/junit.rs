//! Reports as `JUnit` XML, the form that continuous integration reads.

use std::fmt::Write as _;

use crate::{CaseReport, Outcome, Report};

/// The reports as one `JUnit` XML document, with a suite for each of them. A case's class has the device in its
/// name, since the same cases run on each device of a plugin.
#[must_use]
pub fn junit<'a>(reports: impl IntoIterator<Item = &'a Report>) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for report in reports {
        text.push_str(&suite(report));
    }
    text.push_str("</testsuites>\n");
    text
}

fn suite(report: &Report) -> String {
    let (_, skipped, failed) = report.counts();
    let seconds: f64 = report.cases.iter().map(|case| case.seconds).sum();
    let device = format!("{}:{}", report.plugin, report.device);
    let mut text = format!(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" skipped=\"{skipped}\" \
         errors=\"0\" time=\"{seconds:.6}\">\n",
        escape(&format!("{device} {}", report.device_name)),
        report.cases.len(),
    );
    for case in &report.cases {
        text.push_str(&element(&device, case));
    }
    text.push_str("  </testsuite>\n");
    text
}

fn element(device: &str, case: &CaseReport) -> String {
    let mut text = format!(
        "    <testcase classname=\"crossdock.{}\" name=\"{}\" time=\"{:.6}\"",
        escape(device),
        escape(case.name),
        case.seconds,
    );
    // Writing to a string cannot fail.
    let _infallible = match &case.outcome {
        Outcome::Passed => writeln!(text, "/>"),
        Outcome::Skipped(why) => {
            writeln!(
                text,
                ">\n      <skipped message=\"{}\"/>\n    </testcase>",
                escape(why)
            )
        }
        Outcome::Failed(what) => writeln!(
            text,
            ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
            escape(what),
            escape(case.contract),
        ),
    };
    text
}

/// Text that may stand in an element or an attribute. What XML 1.0 cannot hold becomes U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\r' => out.push_str("&#13;"),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Level;

    fn case(outcome: Outcome) -> CaseReport {
        CaseReport {
            name: "it_holds",
            contract: "a < b",
            level: Level::Core,
            outcome,
            seconds: 0.5,
        }
    }

    #[test]
    fn markup_in_a_message_is_escaped() {
        let report = Report {
            plugin: "p&q".into(),
            device: 0,
            device_name: "a \"b\"".into(),
            level: Level::Core,
            cases: vec![
                case(Outcome::Passed),
                case(Outcome::Skipped("no <fill>".into())),
                case(Outcome::Failed("1 & 2\u{1}".into())),
            ],
        };
        assert_eq!(
            junit([&report]),
            r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="p&amp;q:0 a &quot;b&quot;" tests="3" failures="1" skipped="1" errors="0" time="1.500000">
    <testcase classname="crossdock.p&amp;q:0" name="it_holds" time="0.500000"/>
    <testcase classname="crossdock.p&amp;q:0" name="it_holds" time="0.500000">
      <skipped message="no &lt;fill&gt;"/>
    </testcase>
    <testcase classname="crossdock.p&amp;q:0" name="it_holds" time="0.500000">
      <failure message="1 &amp; 2�">a &lt; b</failure>
    </testcase>
  </testsuite>
</testsuites>
"#
        );
        assert!(!report.passed());
        assert_eq!(report.counts(), (1, 1, 1));
    }

    #[test]
    fn each_device_has_a_suite_and_a_class_of_its_own() {
        let mut reports = [0, 1].map(|device| {
            let name = "made up".to_owned();
            let mut report = Report::new("p".to_owned(), device, name, Level::Core);
            report.cases.push(case(Outcome::Passed));
            report
        });
        for report in &mut reports {
            let why = "it crashed".to_owned();
            report.fail("it_closes", "rule", why, Duration::from_secs(2));
        }
        let text = junit(&reports);
        assert_eq!(text.matches("<testsuites>").count(), 1, "{text}");
        for device in ["p:0", "p:1"] {
            let suite = format!("<testsuite name=\"{device} made up\" tests=\"2\" failures=\"1\"");
            assert!(text.contains(&suite), "{text}");
            let class = format!("classname=\"crossdock.{device}\"");
            assert_eq!(text.matches(&class).count(), 2, "{text}");
        }
        assert_eq!(text.matches("time=\"2.500000\"").count(), 2, "{text}");
    }
}
