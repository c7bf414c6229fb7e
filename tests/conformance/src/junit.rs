//! A report as `JUnit` XML, the form that continuous integration reads.

use std::fmt::Write as _;

use crate::{CaseReport, Outcome, Report};

/// The whole document.
pub(crate) fn document(report: &Report) -> String {
    let (_, skipped, failed) = report.counts();
    let seconds: f64 = report.cases.iter().map(|case| case.seconds).sum();
    let suite = escape(&format!(
        "{}:{} {}",
        report.plugin, report.device, report.device_name
    ));
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let head = format!(
        "<testsuites>\n  <testsuite name=\"{suite}\" tests=\"{}\" failures=\"{failed}\" \
         skipped=\"{skipped}\" errors=\"0\" time=\"{seconds:.6}\">\n",
        report.cases.len(),
    );
    text.push_str(&head);
    for case in &report.cases {
        text.push_str(&element(&report.plugin, case));
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

fn element(plugin: &str, case: &CaseReport) -> String {
    let mut text = format!(
        "    <testcase classname=\"crossdock.{}\" name=\"{}\" time=\"{:.6}\"",
        escape(plugin),
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
            document(&report),
            r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="p&amp;q:0 a &quot;b&quot;" tests="3" failures="1" skipped="1" errors="0" time="1.500000">
    <testcase classname="crossdock.p&amp;q" name="it_holds" time="0.500000"/>
    <testcase classname="crossdock.p&amp;q" name="it_holds" time="0.500000">
      <skipped message="no &lt;fill&gt;"/>
    </testcase>
    <testcase classname="crossdock.p&amp;q" name="it_holds" time="0.500000">
      <failure message="1 &amp; 2�">a &lt; b</failure>
    </testcase>
  </testsuite>
</testsuites>
"#
        );
        assert!(!report.passed());
        assert_eq!(report.counts(), (1, 1, 1));
    }
}
