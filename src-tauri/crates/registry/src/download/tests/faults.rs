//! Sources that misbehave.

use super::*;
