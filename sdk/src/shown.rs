//! Texts of others where people see them: nothing in them steers a terminal or a shell.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Whether a character acts on a terminal or on the order of a line in place of being seen.
#[must_use]
pub fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The text with everything that steers written out (`\u{1b}`), but for the ends of lines.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    let odd = |letter: char| letter != '\n' && steers(letter);
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if odd(letter) {
            out.extend(letter.escape_default());
        } else {
            out.push(letter);
        }
    }
    Cow::Owned(out)
}

/// The path as one word that can be pasted into a shell.
#[must_use]
pub fn shell_word(path: &Path) -> String {
    if let Some(text) = path.to_str().filter(|text| !text.contains(steers)) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    // Shells that people use read bytes in this form.
    let mut word = "$'".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'\'' | b'\\' => word.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => word.push(char::from(*byte)),
            // Writing to a string cannot fail. Octal, since its length is fixed.
            _ => drop(write!(word, "\\{byte:03o}")),
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_written_out_and_all_else_stays() {
        assert_eq!(escaped("größe\n日本 \\x"), "größe\n日本 \\x");
        assert_eq!(
            escaped("a\u{1b}[1m\r\t\u{9b}\u{7f}\u{202e}\u{2066}"),
            "a\\u{1b}[1m\\r\\t\\u{9b}\\u{7f}\\u{202e}\\u{2066}"
        );
        assert_eq!(escaped(&escaped("\u{1b}")), escaped("\u{1b}"));
    }

    #[test]
    fn a_word_for_the_shell_is_the_path() {
        let paths: [&[u8]; 5] = [b"/a b", b"/it's", b"/$(x)`\"\\", b"/\x1b'\\\n7", b"/\xff1"];
        for path in paths {
            let word = shell_word(Path::new(std::ffi::OsStr::from_bytes(path)));
            let script = format!("printf %s {word}");
            let said = std::process::Command::new("bash")
                .args(["-c", &script])
                .output()
                .unwrap();
            assert_eq!(said.stdout, path, "{word}");
        }
    }
}
