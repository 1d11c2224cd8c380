//! Arithmetic over slices, once per kernel variant.
