//! The twelve bytes in which Q4_K and Q5_K store eight 6-bit scales and eight 6-bit minima.
//!
//! ```text
//! bits      7 6   5 4 3 2 1 0
//! byte 0-3  sH    s0..s3           scale j   = byte[j] & 63                                   j = 0..4
//! byte 4-7  mH    m0..m3           minimum j = byte[j + 4] & 63
//! byte 8-11 m4..m7 low 4 | s4..s7 low 4
//!                                  scale j   = (byte[j + 4] & 15) | (byte[j - 4] >> 6) << 4   j = 4..8
//!                                  minimum j = (byte[j + 4] >> 4) | (byte[j] >> 6) << 4
//! ```

/// The twelve bytes of eight scales and eight minima, each 0 to 63.
pub(super) fn pack(scales: [u8; 8], minima: [u8; 8]) -> [u8; 12] {
    let ([s0, s1, s2, s3, s4, s5, s6, s7], [m0, m1, m2, m3, m4, m5, m6, m7]) = (scales, minima);
    let top = |low: u8, high: u8| low | (high >> 4) << 6;
    let nibbles = |low: u8, high: u8| low & 15 | (high & 15) << 4;
    [
        top(s0, s4),
        top(s1, s5),
        top(s2, s6),
        top(s3, s7),
        top(m0, m4),
        top(m1, m5),
        top(m2, m6),
        top(m3, m7),
        nibbles(s4, m4),
        nibbles(s5, m5),
        nibbles(s6, m6),
        nibbles(s7, m7),
    ]
}

/// The eight scales and the eight minima, each 0 to 63.
pub(super) fn unpack(bytes: [u8; 12]) -> ([u8; 8], [u8; 8]) {
    let [s0, s1, s2, s3, m0, m1, m2, m3, l0, l1, l2, l3] = bytes;
    let upper_scale = |low: u8, high: u8| low & 15 | (high >> 6) << 4;
    let upper_minimum = |low: u8, high: u8| low >> 4 | (high >> 6) << 4;
    let scales = [
        s0 & 63,
        s1 & 63,
        s2 & 63,
        s3 & 63,
        upper_scale(l0, s0),
        upper_scale(l1, s1),
        upper_scale(l2, s2),
        upper_scale(l3, s3),
    ];
    let minima = [
        m0 & 63,
        m1 & 63,
        m2 & 63,
        m3 & 63,
        upper_minimum(l0, m0),
        upper_minimum(l1, m1),
        upper_minimum(l2, m2),
        upper_minimum(l3, m3),
    ];
    (scales, minima)
}
