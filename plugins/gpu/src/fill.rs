//! Fills. The driver fills with one value of 1, 2 or 4 bytes: a longer pattern is several columns, each with one value of
//! the pattern and as far from one to the next as the pattern is long.
#![expect(unsafe_code, reason = "fills memory by its address")]

use crate::current::Entered;
use crate::fault::Fault;
use crate::place::Place;
use crate::stream::Stream;
use crate::vendor::{Column, Vendor};
use crate::work::{Site, submit_all};

/// Repeats a pattern over `bytes` bytes, synchronously or on a stream.
///
/// # Safety
/// - The range is valid for writes until the fill is done.
pub(crate) unsafe fn fill<V: Vendor>(
    stream: Option<&Stream<V>>,
    dst: &Place<V>,
    bytes: u64,
    pattern: &[u8],
) -> Result<(), Fault> {
    let operation = "fill";
    let columns = columns(dst.address, bytes, pattern, V::WIDEST_WITH_GAPS);
    if dst.is_pageable() {
        let why = "the driver does not know the memory";
        return Err(Fault::unsupported(operation, why));
    }
    let fill = |inside: &Entered<'_, V>, on| {
        submit_all(columns.iter(), |column| {
            // SAFETY: the columns are in the range, which the caller vouches for.
            inside.ask(|vendor| unsafe { vendor.fill(column, on) })
        })
    };
    let site = Site::of([dst, dst], operation)?;
    site.run(stream, [dst, dst], operation, fill)
}

/// The columns that make a pattern, of the widest unit that its length, the address and the driver allow.
fn columns(address: u64, bytes: u64, pattern: &[u8], widest_with_gaps: u64) -> Vec<Column> {
    let pattern = shortest(pattern);
    let length = pattern.len() as u64;
    let is_fit = |unit: &u64| {
        let is_made = *unit == length || *unit <= widest_with_gaps;
        is_made && address.is_multiple_of(*unit) && length.is_multiple_of(*unit)
    };
    let unit = [4, 2].into_iter().find(is_fit).unwrap_or(1);
    let count = bytes / length.max(1);
    let units = pattern.chunks(usize::try_from(unit).unwrap_or(1));
    let column = |(at, value): (u64, &[u8])| {
        let mut value_bytes = [0; 4];
        for (to, from) in value_bytes.iter_mut().zip(value) {
            *to = *from;
        }
        Column {
            address: address + at * unit,
            unit,
            value: u32::from_le_bytes(value_bytes),
            count,
            pitch: length,
        }
    };
    (0..).zip(units).map(column).collect()
}

/// The shortest pattern that makes the same bytes.
fn shortest(pattern: &[u8]) -> &[u8] {
    let (front, back) = pattern.split_at(pattern.len() / 2);
    if front == back && !front.is_empty() {
        return shortest(front);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(at: u64) -> usize {
        usize::try_from(at).unwrap()
    }

    /// What the columns make of memory.
    fn made(address: u64, bytes: usize, pattern: &[u8], widest: u64) -> Vec<u8> {
        let mut memory = vec![0; bytes];
        for column in columns(address, bytes as u64, pattern, widest) {
            assert!(column.unit == column.pitch || column.unit <= widest);
            for row in 0..column.count {
                for at in 0..column.unit {
                    let place = column.address - address + row * column.pitch + at;
                    let value = column.value.to_le_bytes()[index(at)];
                    memory[index(place)] = value;
                }
            }
        }
        memory
    }

    #[test]
    fn columns_make_the_pattern() {
        let bytes: Vec<u8> = (1..=16).collect();
        for length in [1, 2, 4, 8, 16] {
            for address in [0x1000, 0x1001, 0x1002, 0x1004] {
                let wanted: Vec<u8> = bytes[..length].iter().copied().cycle().take(64).collect();
                for widest in [1, 2, 4] {
                    assert_eq!(made(address, 64, &bytes[..length], widest), wanted);
                }
            }
        }
        assert_eq!(columns(0x1000, 64, &[7; 16], 4).len(), 1);
        assert_eq!(columns(0x1000, 64, &bytes, 4).len(), 4);
        assert_eq!(columns(0x1000, 64, &bytes, 1).len(), 16);
        assert_eq!(columns(0x1000, 64, &bytes[..4], 1).len(), 1);
        assert_eq!(columns(0x1001, 64, &bytes, 4).len(), 16);
    }
}
