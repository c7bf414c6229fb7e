//! An aligned table of text.

use anstyle::Style;
use crossdock_sdk::shown::escaped;

use crate::{failure::one_line, screen::HEADING, text::Text};

/// Rows under headings; every column is as wide as its widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    least: Vec<usize>,
    rows: Vec<Vec<Cell>>,
}

/// One text in a table.
#[derive(Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
    right: bool,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            least: vec![0; headings.len()],
            rows: Vec::new(),
        }
    }

    /// With columns at least so wide, for rows that are printed one by one.
    pub(crate) fn at_least(mut self, widths: impl Into<Vec<usize>>) -> Self {
        self.least = widths.into();
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table as text.
    pub(crate) fn text(&self) -> Text {
        let headings = self.headings.iter().enumerate().map(|(column, text)| {
            let right = self
                .rows
                .first()
                .and_then(|row| row.get(column))
                .is_some_and(|c| c.right);
            Cell {
                text: (*text).to_owned(),
                style: HEADING,
                right,
            }
        });
        let mut out = Text::new();
        line(&mut out, &headings.collect::<Vec<_>>(), &self.widths());
        out.append(self.rows());
        out
    }

    /// The rows as text, without the headings.
    pub(crate) fn rows(&self) -> Text {
        let (mut out, widths) = (Text::new(), self.widths());
        for row in &self.rows {
            line(&mut out, row, &widths);
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let headings = self.headings.iter().map(|text| width(text));
        let headings = headings.zip(&self.least);
        let mut widths: Vec<usize> = headings.map(|(text, least)| text.max(*least)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(&cell.text));
            }
        }
        widths
    }
}

impl Cell {
    /// At the left edge of its column.
    pub(crate) fn left(text: impl AsRef<str>) -> Self {
        Self {
            // As it will be seen, since that makes its width.
            text: escaped(&one_line(text.as_ref())).into_owned(),
            style: Style::new(),
            right: false,
        }
    }

    /// At the right edge, for numbers.
    pub(crate) fn right(text: impl AsRef<str>) -> Self {
        Self {
            right: true,
            ..Self::left(text)
        }
    }

    pub(crate) const fn styled(mut self, style: Style) -> Self {
        self.style = style;
        self
    }
}

fn line(out: &mut Text, cells: &[Cell], widths: &[usize]) {
    let mut pending = 0;
    for (index, (cell, widest)) in cells.iter().zip(widths).enumerate() {
        let room = widest.saturating_sub(width(&cell.text));
        let gap = if index == 0 { 0 } else { 2 };
        // Spaces are kept back, so that no line ends with one.
        let before = pending + gap + if cell.right { room } else { 0 };
        pending = if cell.right { 0 } else { room };
        if cell.text.is_empty() {
            pending += before;
            continue;
        }
        out.plain(" ".repeat(before)).styled(cell.style, &cell.text);
    }
    out.plain("\n");
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_line_ends_in_a_space() {
        let mut table = Table::new(&["NAME", "SIZE", "NOTE"]);
        table.row(vec![Cell::left("a"), Cell::right("10"), Cell::left("")]);
        table.row(vec![
            Cell::left("longer"),
            Cell::right("100000"),
            Cell::left("x"),
        ]);
        let text = anstream::adapter::strip_str(&table.text().render()).to_string();
        assert_eq!(
            text,
            "NAME      SIZE  NOTE\na           10\nlonger  100000  x\n"
        );
    }
}
