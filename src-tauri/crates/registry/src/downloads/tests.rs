//! Sharing and ordering.
