//! What this machine has, as plain data.
