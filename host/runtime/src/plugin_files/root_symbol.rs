//! Whether the dynamic linker's hash table of symbols leads to a name.

use object::{
    elf::gnu_hash,
    read::elf::{SectionHeader as _, Sym as _},
};

use super::image::{File, Refused};
use super::names::Names;
use super::refused::PreflightError;

/// `DT_GNU_HASH`, as far as a look-up reads it.
struct Hashes<'a> {
    first_symbol: u32,
    shift: u32,
    bloom: &'a [u8],
    buckets: &'a [u8],
    chains: &'a [u8],
}

/// Whether a look-up as the linker's own finds the defined symbol; also where there is no such table.
pub(super) fn is_found(
    file: &File<'_>,
    names: Names<'_>,
    name: &str,
    damaged: Refused<'_>,
) -> Result<bool, PreflightError> {
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let kind = object::elf::SHT_GNU_HASH;
    let Some(section) = sections
        .iter()
        .find(|section| section.sh_type(endian) == kind)
    else {
        return Ok(true);
    };
    let bytes = section
        .data(endian, file.data())
        .map_err(|error| damaged(&error.to_string()))?;
    let Some(hashes) = Hashes::read(bytes) else {
        return Err(damaged("its hash table of symbols is blank or cut off"));
    };
    if hashes.shift >= u32::BITS {
        let shift = hashes.shift;
        return Err(damaged(&format!(
            "its hash table of symbols shifts by {shift} bits"
        )));
    }
    let symbols = file.elf_dynamic_symbol_table();
    Ok(hashes.candidates(gnu_hash(name.as_bytes())).any(|index| {
        let symbol = symbols.symbol(object::SymbolIndex(index as usize));
        symbol.is_ok_and(|symbol| {
            !symbol.is_undefined(endian) && names.is(symbol.st_name(endian).into(), name.as_bytes())
        })
    }))
}

impl<'a> Hashes<'a> {
    /// Four numbers, then words of a Bloom filter, buckets, and a hash for each symbol.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(16)?;
        let (buckets, words) = (number(head, 0)? as usize, number(head, 2)? as usize);
        if buckets == 0 || words == 0 {
            return None;
        }
        let (bloom, rest) = rest.split_at_checked(words.checked_mul(8)?)?;
        let (buckets, chains) = rest.split_at_checked(buckets.checked_mul(4)?)?;
        Some(Self {
            first_symbol: number(head, 1)?,
            shift: number(head, 3)?,
            bloom,
            buckets,
            chains,
        })
    }

    /// The symbols whose hash is this one, but for its lowest bit, which ends a chain.
    fn candidates(&self, hash: u32) -> impl Iterator<Item = u32> {
        let mut next = self.first(hash);
        let chain = std::iter::from_fn(move || {
            let index = next?;
            let place = index.checked_sub(self.first_symbol)?;
            let value = number(self.chains, place as usize)?;
            next = index.checked_add(1).filter(|_| value & 1 == 0);
            Some((index, value))
        });
        let equal = chain.filter(move |(_, value)| (value ^ hash) >> 1 == 0);
        equal.map(|(index, _)| index)
    }

    /// The first symbol of the hash's chain, where the filter lets it through.
    fn first(&self, hash: u32) -> Option<u32> {
        let at = (hash / 64) as usize & (self.bloom.len() / 8 - 1);
        let word = self.bloom.get(at * 8..at * 8 + 8)?;
        let word = u64::from_ne_bytes(word.try_into().ok()?);
        let has = |bit: u32| word >> (bit % 64) & 1 != 0;
        if !has(hash) || !has(hash >> self.shift) {
            return None;
        }
        let bucket = hash as usize % (self.buckets.len() / 4);
        number(self.buckets, bucket).filter(|index| *index != 0)
    }
}

fn number(bytes: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    Some(u32::from_ne_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}
