//! The text before an array: a dictionary of Python of which only three entries are known, so that it is
//! read in one pass and nothing in it nests.

use super::FileError;

/// What the text says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) dtype: &'a str,
    pub(super) is_fortran: bool,
    pub(super) shape: Vec<u64>,
}

/// The text that is left.
struct Words<'a> {
    left: &'a [u8],
    /// Whether an `L` may stand behind a number.
    has_longs: bool,
}

impl<'a> Header<'a> {
    /// Python 2 wrote an `L` behind some numbers, in files of the first two versions (`has_longs`).
    pub(super) fn parse(text: &'a [u8], has_longs: bool) -> Result<Self, FileError> {
        let (mut dtype, mut is_fortran, mut shape) = (None, None, None);
        let mut words = Words {
            left: text,
            has_longs,
        };
        words.expect(b'{')?;
        while !words.takes(b'}') {
            let key = words.text()?;
            words.expect(b':')?;
            let twice = match key {
                "descr" if words.peek() == Some(b'[') => return Err(FileError::Records),
                "descr" => dtype.replace(words.text()?).is_some(),
                "fortran_order" => is_fortran.replace(words.truth()?).is_some(),
                "shape" => shape.replace(words.extents()?).is_some(),
                _ => true,
            };
            if twice {
                return Err(words.wrong("another entry"));
            }
            if !words.takes(b',') {
                words.expect(b'}')?;
                break;
            }
        }
        if words.peek().is_some() {
            return Err(words.wrong("text behind its end"));
        }
        match (dtype, is_fortran, shape) {
            (Some(dtype), Some(is_fortran), Some(shape)) => Ok(Self {
                dtype,
                is_fortran,
                shape,
            }),
            _ => Err(words.wrong("too few entries")),
        }
    }
}

impl<'a> Words<'a> {
    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        self.left = self.left.trim_ascii_start();
        self.left.first().copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        if there {
            self.skip(1);
        }
        there
    }

    fn expect(&mut self, byte: u8) -> Result<(), FileError> {
        if self.takes(byte) {
            return Ok(());
        }
        Err(self.wrong(&format!("no `{}` where one belongs", char::from(byte))))
    }

    /// A text in quotes of either kind; none that is known holds a quote or a backslash.
    fn text(&mut self) -> Result<&'a str, FileError> {
        let quote = self.peek().filter(|byte| b"'\"".contains(byte));
        let quote = quote.ok_or_else(|| self.wrong("no text where one belongs"))?;
        self.skip(1);
        let end = self
            .left
            .iter()
            .take(LONGEST)
            .position(|byte| *byte == quote);
        let text = end.and_then(|end| self.left.get(..end));
        let text = text.and_then(|text| std::str::from_utf8(text).ok());
        let text = text.filter(|text| !text.contains('\\'));
        let text = text.ok_or_else(|| self.wrong("a text without an end"))?;
        self.skip(text.len() + 1);
        Ok(text)
    }

    fn truth(&mut self) -> Result<bool, FileError> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if self.left.starts_with(word.as_bytes()) {
                self.skip(word.len());
                return Ok(value);
            }
        }
        Err(self.wrong("neither True nor False"))
    }

    /// `()`, `(4,)` or `(4, 6)`.
    fn extents(&mut self) -> Result<Vec<u64>, FileError> {
        let mut extents = Vec::new();
        let mut commas = 0;
        self.expect(b'(')?;
        while !self.takes(b')') {
            extents.push(self.number()?);
            if !self.takes(b',') {
                self.expect(b')')?;
                break;
            }
            commas += 1;
        }
        if extents.len() == 1 && commas == 0 {
            return Err(self.wrong("a number where a tuple belongs"));
        }
        Ok(extents)
    }

    /// Digits, of which the first of several is not 0.
    fn number(&mut self) -> Result<u64, FileError> {
        self.peek();
        let count = self
            .left
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let digits = self.left.get(..count).unwrap_or_default();
        let digits = Some(digits).filter(|digits| count == 1 || !digits.starts_with(b"0"));
        let value = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|text| text.parse().ok());
        let value = value.ok_or_else(|| self.wrong("no extent that a tensor can have"))?;
        self.skip(count);
        if self.has_longs {
            self.takes(b'L');
        }
        Ok(value)
    }

    fn skip(&mut self, count: usize) {
        self.left = self.left.get(count..).unwrap_or_default();
    }

    fn wrong(&self, found: &str) -> FileError {
        let left = self.left.len();
        let text = format!("{found}, {left} bytes before the end of its text");
        FileError::Header(std::io::Error::new(std::io::ErrorKind::InvalidData, text))
    }
}

/// Longer than any key or type of an element.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_numpy_writes() {
        let header = Header::parse(
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 6), }  \n",
            true,
        );
        assert_eq!(
            header.unwrap(),
            Header {
                dtype: "<f4",
                is_fortran: false,
                shape: vec![4, 6]
            }
        );
        let empty =
            Header::parse(b"{'shape':(),'fortran_order':True,'descr':\"|b1\"}", true).unwrap();
        assert_eq!((empty.shape, empty.is_fortran), (vec![], true));
    }

    #[test]
    fn whatever_the_text_is_it_is_read_once() {
        let deep = ["[", "(", "{", "{'a':", "'", "{'shape':(", "{'descr':[("];
        for part in deep {
            let text = part.repeat((1 << 16) / part.len());
            assert!(Header::parse(text.as_bytes(), true).is_err(), "{part}");
        }
        let good = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}";
        for cut in 0..good.len() {
            assert!(Header::parse(&good[..cut], true).is_err(), "{cut}");
        }
    }
}
