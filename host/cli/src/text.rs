//! Text for people: words with their styles beside them, so that all words are made harmless in one place.

use std::fmt::Write as _;

use anstyle::Style;
use crossdock_sdk::shown::escaped;

/// Words, each with a style.
#[derive(Debug, Default, Clone)]
pub(crate) struct Text(Vec<(Style, String)>);

impl Text {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn plain(&mut self, text: impl Into<String>) -> &mut Self {
        self.styled(Style::new(), text)
    }

    pub(crate) fn styled(&mut self, style: Style, text: impl Into<String>) -> &mut Self {
        self.0.push((style, text.into()));
        self
    }

    pub(crate) fn append(&mut self, other: Self) -> &mut Self {
        self.0.extend(other.0);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, text)| text.is_empty())
    }

    /// With the codes of the styles; `anstream` takes them out where they do not belong. No other code
    /// is left.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        for (style, text) in &self.0 {
            // Writing to a string cannot fail.
            write!(out, "{style}{}{style:#}", escaped(text)).ok();
        }
        out
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(vec![(Style::new(), text)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::BAD;

    #[test]
    fn styles_pass_and_what_words_hold_does_not() {
        let mut text = Text::new();
        text.styled(BAD, "a\u{1b}[2J").plain("\n\u{202e}b");
        let rendered = text.render();
        assert_eq!(rendered, format!("{BAD}a\\u{{1b}}[2J{BAD:#}\n\\u{{202e}}b"));
    }
}
