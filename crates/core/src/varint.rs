//! Numbers in cursors and stream ids, in as few bytes as they need.

/// Appends a number in as few bytes as it needs, seven bits in each.
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or_default());
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
