//! The telling lines of a layout report, which is hundreds of lines long.

/// Where the layouts differ, and how: `` `allocate.param_1.alignment`: mismatched type (u64, found u32) ``.
pub(super) fn summary(report: &str) -> String {
    let (mut found, mut path) = (Vec::new(), Vec::new());
    let mut lines = report.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line.ends_with("error(s)inside:") {
            path = path_of_fields(&mut lines);
        } else if let Some(error) = line.strip_prefix("Error:") {
            let place = path.join(".");
            let (ours, theirs) = (value(&mut lines, "Expected:"), value(&mut lines, "Found:"));
            let text = format!("`{place}`: {error} ({ours}, found {theirs})");
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    found.truncate(MOST);
    format!("its hook table has another layout: {}", found.join("; "))
}

/// The names on the way to a type; the field of a pointer has none.
fn path_of_fields<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    lines
        .take_while(|line| !line.starts_with("Layout of expected"))
        .filter_map(|line| line.strip_prefix("field_name:"))
        .filter(|name| *name != "0")
        .collect()
}

/// The line after `label`, which is a field or a number.
fn value<'a>(lines: &mut impl Iterator<Item = &'a str>, label: &str) -> &'a str {
    let value = lines.skip_while(|line| *line != label).nth(1);
    let value = value.unwrap_or_default();
    value.strip_prefix("field_name:").unwrap_or(value)
}

const MOST: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_told_once_with_its_place() {
        let block = "3 error(s)inside:\n  field_name:copy\n  field_name:0\n  field_name:bytes\n\
                     Layout of expected type:\n  field_name:other\n\
                     Error:mismatched type\nExpected:\n  u64\nFound:\n  u32\n";
        let text = summary(&format!("0 error(s).\n{block}{block}"));
        let place = "`copy.bytes`: mismatched type (u64, found u32)";
        assert_eq!(text, format!("its hook table has another layout: {place}"));
    }
}
