//! Tensors for `matrix` where no file was given.

use crossdock_sdk::dlpack::{DlpackError, Dtype, Layout};

use super::{Bytes, FileTensor, Source};

/// A picture, a weight and a large one; their bytes have no short period.
pub(crate) fn generated() -> Result<Vec<FileTensor>, DlpackError> {
    let shapes: [(&str, Dtype, &[i64]); 3] = [
        ("picture", Dtype::UINT8, &[480, 640, 3]),
        ("weight", Dtype::FLOAT32, &[512, 1024]),
        ("large", Dtype::FLOAT16, &[16, 1024, 1024]),
    ];
    let make = |(name, dtype, shape): (&str, Dtype, &[i64])| {
        let layout = Layout::compact(dtype, shape)?;
        let bytes = Bytes::from(noise(layout.bytes()));
        Ok(FileTensor {
            name: format!("generated {name}"),
            layout,
            source: Source::Bytes { bytes, offset: 0 },
        })
    };
    shapes.into_iter().map(make).collect()
}

/// A fixed sequence: a run can be repeated.
fn noise(count: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::new();
    for _ in 0..count.div_ceil(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    bytes
}
