//! The page that `matrix --html` writes: topology, heat map and table, all in one file.

use std::f64::consts::TAU;

use crossdock_sdk::shown::escaped;

use crate::command::matrix::run::{Matrix, Outcome, Pair};
use crate::screen;

/// The whole page. Every text from outside goes through [`escape`].
pub(crate) fn page(matrix: &Matrix) -> String {
    let total = matrix.tensors.iter().map(|tensor| tensor.bytes).sum();
    let lead = format!(
        "{} devices, {} tensors, {}, by route {}",
        matrix.devices.len(),
        matrix.tensors.len(),
        screen::bytes(total),
        matrix.asked.join(", then ")
    );
    let by_route = matrix.asked.iter().map(|asked| section(matrix, asked));
    let parts = [
        HEAD,
        "<h1>Crossdock matrix</h1><p class=\"lead\">",
        &escape(&lead),
        "<br>",
        &escape(&matrix.made.line()),
        "</p>",
        &wrong(matrix),
        "<section><h2>Devices</h2>",
        &device_list(matrix),
        "</section>",
        &by_route.collect::<String>(),
        "<section><h2>Tensors</h2>",
        &tensor_table(matrix),
        "</section></main></body></html>\n",
    ];
    parts.concat()
}

/// What no table shows.
fn wrong(matrix: &Matrix) -> String {
    let problems = matrix.problems.iter();
    let problems = problems.map(|problem| format!("{}: {}", problem.what, problem.why));
    let (untried, all) = (matrix.untried(), matrix.count());
    let untried = (untried > 0).then(|| format!("{untried} of {all} pairs were not tried"));
    let lines = problems.chain(untried);
    let lines: String = lines
        .map(|line| format!("<p><span class=\"bad\">{}</span></p>", escape(&line)))
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("<section><h2>Wrong</h2>{lines}</section>")
}

/// Makes text harmless between tags and inside quoted attributes, and readable as it stands.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in escaped(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// All pairs by one route: who reaches whom, how fast, and the explanations.
fn section(matrix: &Matrix, asked: &str) -> String {
    let pairs: Vec<&Pair> = matrix.by_route(asked).collect();
    [
        "<section><h2>By route ",
        &escape(asked),
        "</h2>",
        &topology(matrix, &pairs),
        "<h3>GB/s</h3>",
        &heat_map(matrix, &pairs),
        "<h3>Pairs</h3>",
        &route_table(&pairs),
        "</section>",
    ]
    .concat()
}

fn topology(matrix: &Matrix, pairs: &[&Pair]) -> String {
    let count = matrix.devices.len().max(1) as f64;
    let place = |index: usize| {
        let angle = TAU * (index as f64 / count - 0.25);
        (300.0 + 210.0 * angle.cos(), 170.0 + 120.0 * angle.sin())
    };
    let index_of = |id: &str| matrix.devices.iter().position(|device| device.id == id);
    let mut out = String::from(
        "<svg class=\"topology\" viewBox=\"0 0 600 340\" role=\"img\" \
         aria-label=\"devices and the routes between them\">",
    );
    for pair in pairs.iter().filter(|pair| pair.from != pair.to) {
        let (Some(from), Some(to)) = (index_of(&pair.from), index_of(&pair.to)) else {
            continue;
        };
        let ((x1, y1), (x2, y2)) = (place(from), place(to));
        // Each direction bends to its own side, so that both are seen.
        let (bend_x, bend_y) = ((y2 - y1) * 0.14, (x1 - x2) * 0.14);
        let (mid_x, mid_y) = ((x1 + x2) / 2.0 + bend_x, (y1 + y2) / 2.0 + bend_y);
        out.push_str(&format!(
            "<path class=\"edge {}\" d=\"M{x1:.1} {y1:.1}Q{mid_x:.1} {mid_y:.1} \
             {x2:.1} {y2:.1}\"><title>{}</title></path>",
            class(pair),
            escape(&explain(pair)),
        ));
        let (label_x, label_y) = (
            (x1 + x2) / 2.0 + bend_x / 2.0,
            (y1 + y2) / 2.0 + bend_y / 2.0,
        );
        out.push_str(&format!(
            "<text class=\"edge-label\" x=\"{label_x:.1}\" \
             y=\"{label_y:.1}\">{}<title>{}</title></text>",
            escape(&pair.route),
            escape(&explain(pair)),
        ));
    }
    for (index, device) in matrix.devices.iter().enumerate() {
        let (x, y) = place(index);
        out.push_str(&format!(
            "<g class=\"node\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"120\" height=\"36\" rx=\"8\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\">{}</text><title>{}</title></g>",
            x - 60.0,
            y - 18.0,
            y + 5.0,
            escape(&device.id),
            escape(&device.name),
        ));
    }
    out + "</svg>"
}

fn device_list(matrix: &Matrix) -> String {
    let rows = matrix.devices.iter().map(|device| {
        let memory = screen::bytes(device.total_memory_bytes);
        let cells = [&device.id, &device.name, &device.plugin, &memory];
        row(&cells.map(|text| escape(text)))
    });
    table(&["Device", "Name", "Plugin", "Memory"], rows.collect())
}

/// Colours are those of one scale over all routes.
fn heat_map(matrix: &Matrix, pairs: &[&Pair]) -> String {
    let rates = matrix.pairs.iter().filter_map(|pair| pair.gb_per_s);
    let fastest = rates.fold(f64::MIN_POSITIVE, f64::max);
    let mut out =
        String::from("<div class=\"scroll\"><table class=\"heat\"><tr><th>from \\ to</th>");
    for device in &matrix.devices {
        out.push_str(&format!("<th scope=\"col\">{}</th>", escape(&device.id)));
    }
    out.push_str("</tr>");
    for from in &matrix.devices {
        out.push_str(&format!("<tr><th scope=\"row\">{}</th>", escape(&from.id)));
        for pair in pairs.iter().filter(|pair| pair.from == from.id) {
            let share = pair.gb_per_s.map_or(0.0, |rate| rate / fastest);
            out.push_str(&format!(
                "<td class=\"{}\" style=\"background:rgba(37,119,220,{:.2})\" title=\"{}\">\
                 <b>{}</b><br><small>{}</small></td>",
                class(pair),
                share * 0.65,
                escape(&explain(pair)),
                in_cell(pair),
                escape(if pair.outcome.is_moved() {
                    &pair.route
                } else {
                    ""
                }),
            ));
        }
        out.push_str("</tr>");
    }
    out + "</table></div><p class=\"note\">The darker, the faster. An alias copies nothing, \
           so it has no rate. Point at a cell for the explanation.</p>"
}

fn route_table(pairs: &[&Pair]) -> String {
    let rows = pairs.iter().map(|pair| {
        let (verdict, style) = match pair.outcome {
            Outcome::Verified => ("verified".to_owned(), "good"),
            Outcome::Refused => ("refused".to_owned(), "dim"),
            Outcome::Untried => ("not tried".to_owned(), "dim"),
            bad => (bad.name().to_uppercase(), "bad"),
        };
        row(&[
            format!("{} &rarr; {}", escape(&pair.from), escape(&pair.to)),
            escape(&pair.route),
            or_dash(
                pair.outcome
                    .is_moved()
                    .then(|| screen::bytes(pair.bytes_copied)),
            ),
            or_dash(pair.seconds.map(screen::seconds)),
            rate(pair),
            format!("<span class=\"{style}\">{verdict}</span>"),
            format!("<pre>{}</pre>", escape(&explain(pair))),
        ])
    });
    let headings = [
        "Pair",
        "Route",
        "Copied",
        "Time",
        "GB/s",
        "Bytes",
        "Explanation",
    ];
    table(&headings, rows.collect())
}

fn tensor_table(matrix: &Matrix) -> String {
    let rows = matrix.tensors.iter().map(|tensor| {
        let shape = format!("{:?}", tensor.shape);
        let cells = [
            &tensor.name,
            &tensor.dtype,
            &shape,
            &screen::bytes(tensor.bytes),
        ];
        row(&cells.map(|text| escape(text)))
    });
    table(&["Tensor", "Dtype", "Shape", "Size"], rows.collect())
}

fn explain(pair: &Pair) -> String {
    if pair.why.is_empty() || pair.explanation.contains(&pair.why) {
        return pair.explanation.clone();
    }
    format!("{}\n{}", pair.explanation, pair.why)
}

fn rate(pair: &Pair) -> String {
    or_dash(pair.gb_per_s.map(|rate| format!("{rate:.2}")))
}

/// The rate, or what is wrong in its place.
fn in_cell(pair: &Pair) -> String {
    match pair.outcome {
        Outcome::Verified => rate(pair),
        other => other.name().to_uppercase(),
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "&ndash;".to_owned())
}

fn class(pair: &Pair) -> &'static str {
    match pair.outcome {
        Outcome::Refused | Outcome::Untried => "refused",
        Outcome::Verified if pair.route == "alias" => "alias",
        Outcome::Verified if pair.route == "direct" => "direct",
        Outcome::Verified => "staged",
        _ => "bad",
    }
}

fn row(cells: &[String]) -> String {
    format!("<tr><td>{}</td></tr>", cells.join("</td><td>"))
}

fn table(headings: &[&str], rows: Vec<String>) -> String {
    let head = headings.join("</th><th scope=\"col\">");
    let rows = rows.concat();
    format!(
        "<div class=\"scroll\"><table><tr><th scope=\"col\">{head}</th></tr>{rows}</table></div>"
    )
}

const HEAD: &str = include_str!("page_head.html");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{command::matrix::made::Made, failure::Problem};

    #[test]
    fn every_text_from_outside_is_escaped() {
        let evil = "<script>alert('x')</script>\"&\u{1b}";
        let pair = Pair {
            asked: evil.to_owned(),
            from: evil.to_owned(),
            to: evil.to_owned(),
            route: evil.to_owned(),
            outcome: Outcome::Different,
            why: evil.to_owned(),
            explanation: evil.to_owned(),
            bytes: 1,
            bytes_copied: 1,
            seconds: Some(1.0),
            gb_per_s: Some(1.0),
        };
        let matrix = Matrix {
            asked: vec![evil.to_owned()],
            devices: Vec::new(),
            tensors: Vec::new(),
            pairs: vec![pair],
            problems: vec![Problem::new(evil, evil, evil)],
            made: Made {
                host: evil.to_owned(),
                ..Made::default()
            },
        };
        let page = page(&matrix);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{page}");
        assert!(!page.contains('\u{1b}'));
    }

    #[test]
    fn the_page_names_no_other_file() {
        for word in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!HEAD.contains(word), "{word}");
        }
    }
}
