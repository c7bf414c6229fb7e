//! Element types: code, bits and lanes, their names, and how many bytes a number of them takes.

use std::fmt;
use std::str::FromStr;

use super::error::DlpackError;
use super::layout::DLDataType;

/// A DLPack type code.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DtypeCode(u8);

impl DtypeCode {
    /// Signed integers.
    pub const INT: Self = Self(0);
    /// Unsigned integers.
    pub const UINT: Self = Self(1);
    /// IEEE floating point.
    pub const FLOAT: Self = Self(2);
    /// Opaque handles.
    pub const OPAQUE_HANDLE: Self = Self(3);
    /// bfloat16.
    pub const BFLOAT: Self = Self(4);
    /// Complex numbers.
    pub const COMPLEX: Self = Self(5);
    /// Truth values, one byte each.
    pub const BOOL: Self = Self(6);
    /// `float8_e3m4`.
    pub const FLOAT8_E3M4: Self = Self(7);
    /// `float8_e4m3`.
    pub const FLOAT8_E4M3: Self = Self(8);
    /// `float8_e4m3b11fnuz`.
    pub const FLOAT8_E4M3B11FNUZ: Self = Self(9);
    /// `float8_e4m3fn`.
    pub const FLOAT8_E4M3FN: Self = Self(10);
    /// `float8_e4m3fnuz`.
    pub const FLOAT8_E4M3FNUZ: Self = Self(11);
    /// `float8_e5m2`.
    pub const FLOAT8_E5M2: Self = Self(12);
    /// `float8_e5m2fnuz`.
    pub const FLOAT8_E5M2FNUZ: Self = Self(13);
    /// `float8_e8m0fnu`.
    pub const FLOAT8_E8M0FNU: Self = Self(14);
    /// `float6_e2m3fn`.
    pub const FLOAT6_E2M3FN: Self = Self(15);
    /// `float6_e3m2fn`.
    pub const FLOAT6_E3M2FN: Self = Self(16);
    /// `float4_e2m1fn`.
    pub const FLOAT4_E2M1FN: Self = Self(17);
    /// Complex numbers of two bfloat16; it came after version 1.3.
    pub const BCOMPLEX: Self = Self(18);

    /// The code with this number, known or not.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Self {
        Self(raw)
    }

    /// The number.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self.0
    }

    /// Whether values of this code may have this many bits.
    #[must_use]
    #[inline]
    pub const fn allows(self, bits: u8) -> bool {
        match self.0 {
            0 | 1 => matches!(bits, 1 | 2 | 4 | 8 | 16 | 32 | 64),
            2 => matches!(bits, 16 | 32 | 64 | 128),
            3 => matches!(bits, 8 | 16 | 32 | 64),
            4 => bits == 16,
            5 => matches!(bits, 32 | 64 | 128),
            6..=14 => bits == 8,
            15 | 16 => bits == 6,
            17 => bits == 4,
            18 => bits == 32,
            _ => false,
        }
    }

    const fn expected(self) -> &'static str {
        match self.0 {
            0 | 1 => "1, 2, 4, 8, 16, 32 or 64 bits",
            2 => "16, 32, 64 or 128 bits",
            3 => "8, 16, 32 or 64 bits",
            4 => "16 bits",
            5 => "32, 64 or 128 bits",
            6..=14 => "8 bits",
            15 | 16 => "6 bits",
            17 => "4 bits",
            18 => "32 bits",
            _ => "a code from 0 to 18",
        }
    }
}

/// The type of one element: only combinations that DLPack gives a meaning exist.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dtype {
    code: DtypeCode,
    bits: u8,
    lanes: u16,
}

impl Dtype {
    /// `bool`.
    pub const BOOL: Self = Self::scalar(DtypeCode::BOOL, 8);
    /// `int8`.
    pub const INT8: Self = Self::scalar(DtypeCode::INT, 8);
    /// `int16`.
    pub const INT16: Self = Self::scalar(DtypeCode::INT, 16);
    /// `int32`.
    pub const INT32: Self = Self::scalar(DtypeCode::INT, 32);
    /// `int64`.
    pub const INT64: Self = Self::scalar(DtypeCode::INT, 64);
    /// `uint8`.
    pub const UINT8: Self = Self::scalar(DtypeCode::UINT, 8);
    /// `uint16`.
    pub const UINT16: Self = Self::scalar(DtypeCode::UINT, 16);
    /// `uint32`.
    pub const UINT32: Self = Self::scalar(DtypeCode::UINT, 32);
    /// `uint64`.
    pub const UINT64: Self = Self::scalar(DtypeCode::UINT, 64);
    /// `float16`.
    pub const FLOAT16: Self = Self::scalar(DtypeCode::FLOAT, 16);
    /// `float32`.
    pub const FLOAT32: Self = Self::scalar(DtypeCode::FLOAT, 32);
    /// `float64`.
    pub const FLOAT64: Self = Self::scalar(DtypeCode::FLOAT, 64);
    /// `bfloat16`.
    pub const BFLOAT16: Self = Self::scalar(DtypeCode::BFLOAT, 16);
    /// `complex64`.
    pub const COMPLEX64: Self = Self::scalar(DtypeCode::COMPLEX, 64);
    /// `complex128`.
    pub const COMPLEX128: Self = Self::scalar(DtypeCode::COMPLEX, 128);
    /// `float4_e2m1fn`.
    pub const FLOAT4_E2M1FN: Self = Self::scalar(DtypeCode::FLOAT4_E2M1FN, 4);

    const fn scalar(code: DtypeCode, bits: u8) -> Self {
        Self {
            code,
            bits,
            lanes: 1,
        }
    }

    /// The type with these numbers.
    ///
    /// # Errors
    /// [`DlpackError::Dtype`] where the code is unknown, the bits do not go with it, or there is no lane.
    #[inline]
    pub const fn new(code: DtypeCode, bits: u8, lanes: u16) -> Result<Self, DlpackError> {
        if !code.allows(bits) {
            return Err(DlpackError::Dtype {
                code: code.0,
                bits,
                lanes,
                expected: code.expected(),
            });
        }
        if lanes == 0 {
            return Err(DlpackError::Dtype {
                code: code.0,
                bits,
                lanes,
                expected: "1 lane or more",
            });
        }
        Ok(Self { code, bits, lanes })
    }

    /// From the C form.
    ///
    /// # Errors
    /// As [`Dtype::new`].
    #[inline]
    pub const fn from_raw(raw: DLDataType) -> Result<Self, DlpackError> {
        Self::new(DtypeCode(raw.code), raw.bits, raw.lanes)
    }

    /// The C form.
    #[must_use]
    pub const fn to_raw(self) -> DLDataType {
        DLDataType {
            code: self.code.0,
            bits: self.bits,
            lanes: self.lanes,
        }
    }

    /// The type code.
    #[must_use]
    pub const fn code(self) -> DtypeCode {
        self.code
    }

    /// Bits of one lane.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// Values in one element.
    #[must_use]
    pub const fn lanes(self) -> u16 {
        self.lanes
    }

    /// Bits from one element to the next. A packed element takes exactly its bits, a padded one whole bytes.
    #[must_use]
    #[inline]
    pub fn element_bits(self, padded: bool) -> u32 {
        let bits = u32::from(self.bits) * u32::from(self.lanes);
        if padded {
            bits.next_multiple_of(8)
        } else {
            bits
        }
    }

    /// Bytes of one element, or `None` where packed elements do not end on a byte.
    #[must_use]
    pub fn element_bytes(self, padded: bool) -> Option<u32> {
        let bits = self.element_bits(padded);
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// Whether one value is smaller than a byte.
    #[must_use]
    pub const fn is_sub_byte(self) -> bool {
        self.bits < 8
    }

    /// Bytes that `elements` take one after the other; the last byte of packed elements is rounded up.
    ///
    /// # Errors
    /// [`DlpackError::SizeOverflow`] where 64 bits do not count them.
    pub fn bytes_for(self, elements: u64, padded: bool) -> Result<u64, DlpackError> {
        let element_bits = self.element_bits(padded);
        let bits = u128::from(elements) * u128::from(element_bits);
        u64::try_from(bits.div_ceil(8)).map_err(|_too_many| DlpackError::SizeOverflow {
            shape: vec![i64::try_from(elements).unwrap_or(i64::MAX)],
            element_bits,
            limit: i64::MAX,
        })
    }

    fn base_name(self) -> Option<&'static str> {
        let is_it = |row: &&(&str, DtypeCode, u8)| row.1 == self.code && row.2 == self.bits;
        NAMES.iter().find(is_it).map(|row| row.0)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.base_name().unwrap_or("?");
        if self.lanes == 1 {
            return f.pad(name);
        }
        f.pad(&format!("{name}x{}", self.lanes))
    }
}

impl fmt::Debug for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Dtype {
    type Err = DlpackError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || DlpackError::DtypeText {
            text: text.to_owned(),
        };
        // The whole text first: `complex64` must not be read as 64 lanes of `comple`.
        if let Some(found) = by_base_name(text) {
            return Ok(found);
        }
        let (base, lanes) = text.rsplit_once('x').ok_or_else(refused)?;
        let found = by_base_name(base).ok_or_else(refused)?;
        if !lanes.starts_with(|first: char| matches!(first, '1'..='9')) {
            return Err(refused());
        }
        let lanes = lanes.parse().map_err(|_too_many| refused())?;
        Ok(Self { lanes, ..found })
    }
}

fn by_base_name(name: &str) -> Option<Dtype> {
    NAMES
        .iter()
        .find(|row| row.0 == name)
        .map(|row| Dtype::scalar(row.1, row.2))
}

/// Every legal pair of code and bits, and its name.
const NAMES: &[(&str, DtypeCode, u8)] = &[
    ("int1", DtypeCode::INT, 1),
    ("int2", DtypeCode::INT, 2),
    ("int4", DtypeCode::INT, 4),
    ("int8", DtypeCode::INT, 8),
    ("int16", DtypeCode::INT, 16),
    ("int32", DtypeCode::INT, 32),
    ("int64", DtypeCode::INT, 64),
    ("uint1", DtypeCode::UINT, 1),
    ("uint2", DtypeCode::UINT, 2),
    ("uint4", DtypeCode::UINT, 4),
    ("uint8", DtypeCode::UINT, 8),
    ("uint16", DtypeCode::UINT, 16),
    ("uint32", DtypeCode::UINT, 32),
    ("uint64", DtypeCode::UINT, 64),
    ("float16", DtypeCode::FLOAT, 16),
    ("float32", DtypeCode::FLOAT, 32),
    ("float64", DtypeCode::FLOAT, 64),
    ("float128", DtypeCode::FLOAT, 128),
    ("handle8", DtypeCode::OPAQUE_HANDLE, 8),
    ("handle16", DtypeCode::OPAQUE_HANDLE, 16),
    ("handle32", DtypeCode::OPAQUE_HANDLE, 32),
    ("handle64", DtypeCode::OPAQUE_HANDLE, 64),
    ("bfloat16", DtypeCode::BFLOAT, 16),
    ("complex32", DtypeCode::COMPLEX, 32),
    ("complex64", DtypeCode::COMPLEX, 64),
    ("complex128", DtypeCode::COMPLEX, 128),
    ("bool", DtypeCode::BOOL, 8),
    ("float8_e3m4", DtypeCode::FLOAT8_E3M4, 8),
    ("float8_e4m3", DtypeCode::FLOAT8_E4M3, 8),
    ("float8_e4m3b11fnuz", DtypeCode::FLOAT8_E4M3B11FNUZ, 8),
    ("float8_e4m3fn", DtypeCode::FLOAT8_E4M3FN, 8),
    ("float8_e4m3fnuz", DtypeCode::FLOAT8_E4M3FNUZ, 8),
    ("float8_e5m2", DtypeCode::FLOAT8_E5M2, 8),
    ("float8_e5m2fnuz", DtypeCode::FLOAT8_E5M2FNUZ, 8),
    ("float8_e8m0fnu", DtypeCode::FLOAT8_E8M0FNU, 8),
    ("float6_e2m3fn", DtypeCode::FLOAT6_E2M3FN, 6),
    ("float6_e3m2fn", DtypeCode::FLOAT6_E3M2FN, 6),
    ("float4_e2m1fn", DtypeCode::FLOAT4_E2M1FN, 4),
    ("bcomplex32", DtypeCode::BCOMPLEX, 32),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_and_bits_is_a_named_type_or_refused_21_27() {
        for (code, bits) in
            (0..=u8::MAX).flat_map(|code| (0..=u8::MAX).map(move |bits| (code, bits)))
        {
            let listed = NAMES.iter().any(|row| row.1.raw() == code && row.2 == bits);
            let made = Dtype::new(DtypeCode::from_raw(code), bits, 1);
            assert_eq!(made.is_ok(), listed, "code {code}, bits {bits}");
        }
    }

    #[test]
    fn the_code_that_came_after_version_1_3_has_a_name() {
        let dtype = Dtype::new(DtypeCode::from_raw(18), 32, 1).unwrap();
        assert_eq!(dtype.to_string(), "bcomplex32");
        assert_eq!(dtype.element_bytes(false), Some(4));
    }

    #[test]
    fn every_name_is_read_back_with_and_without_lanes_26() {
        for &(name, code, bits) in NAMES {
            for lanes in [1, 2, 4, 1000] {
                let dtype = Dtype::new(code, bits, lanes).unwrap();
                assert_eq!(dtype.to_string().parse::<Dtype>().unwrap(), dtype, "{name}");
            }
        }
        assert_eq!("float32x4".parse::<Dtype>().unwrap().lanes(), 4);
    }

    #[test]
    fn text_that_names_no_type_is_refused() {
        for text in [
            "",
            "float",
            "float33",
            "complex65",
            "int8x",
            "int8x0",
            "int8x+1",
            "int8x99999",
            "x4",
            "int8x2x2",
        ] {
            assert!(text.parse::<Dtype>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn float6_and_float4_with_other_bits_are_refused_24() {
        for (code, bits) in [(15, 8), (16, 8), (17, 8), (17, 6), (6, 1)] {
            assert!(Dtype::new(DtypeCode::from_raw(code), bits, 1).is_err());
        }
        assert!(Dtype::new(DtypeCode::FLOAT, 32, 0).is_err());
    }

    #[test]
    fn packed_types_round_the_total_and_padded_ones_the_element_20_25() {
        let float4 = Dtype::FLOAT4_E2M1FN;
        let float6 = "float6_e3m2fn".parse::<Dtype>().unwrap();
        assert_eq!(float4.bytes_for(7, false).unwrap(), 4);
        assert_eq!(float4.bytes_for(7, true).unwrap(), 7);
        assert_eq!(float6.bytes_for(4, false).unwrap(), 3);
        assert_eq!(float6.bytes_for(5, false).unwrap(), 4);
        assert_eq!(float6.bytes_for(5, true).unwrap(), 5);
        assert_eq!(
            "float4_e2m1fnx2"
                .parse::<Dtype>()
                .unwrap()
                .bytes_for(3, false)
                .unwrap(),
            3
        );
        assert_eq!(
            "float4_e2m1fnx3"
                .parse::<Dtype>()
                .unwrap()
                .bytes_for(3, true)
                .unwrap(),
            6
        );
        assert_eq!(Dtype::COMPLEX64.bytes_for(3, false).unwrap(), 24);
        assert_eq!(Dtype::BOOL.bytes_for(3, false).unwrap(), 3);
        assert!(Dtype::COMPLEX64.bytes_for(u64::MAX, false).is_err());
    }
}
