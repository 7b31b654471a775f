//! Numbers in cursors and stream ids, in as few bytes as they need.

/// Bytes of a number, at most.
pub const BYTES_MAX: usize = 10;

/// A number in as few bytes as it needs, seven bits in each.
pub fn encode(mut number: u64, encoded: &mut [u8; BYTES_MAX]) -> &[u8] {
    let mut length = 0;
    loop {
        let seven = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        encoded[length] = if number == 0 { seven } else { seven | 0x80 };
        length += 1;
        if number == 0 {
            break;
        }
    }
    &encoded[..length]
}

/// Reads such a number, and moves on behind it; none if there is none that fits.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        if part.leading_zeros() < shift {
            return None;
        }
        number |= part << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
