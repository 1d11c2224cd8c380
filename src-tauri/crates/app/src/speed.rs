//! Speed of models on this machine: measured where a model ran, else estimated from measured rates of the kernels.
//!
//! ```text
//! kernel rates (once for each machine)  --> estimate of any model --> corrected by the median of measured / estimated
//! steps of models that ran (per digest) --> measured speed, which replaces the estimate
//! ```
//!
//! [`Speeds`] is the handle. Both measurements are files in the cache folder: without them, they are made again.

mod error;
mod estimate;
mod handle;
mod measured;
mod rates;
mod stored;
mod token_work;

pub use error::Error;
pub use estimate::{Figure, Speed};
pub use handle::{InstalledSpeed, Speeds};
pub use rates::{TypeRate, VariantRates};
pub use token_work::TokenWork;
