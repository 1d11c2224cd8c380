//! Who believes whom: keys that machines know each other by, and what they prove with them.
//!
//! A machine is its ed25519 key. Two machines learn each other's key once, over a network that anybody may meddle with, by
//! a code that their user carries from one to the other ([`join`]); each writes down the other's ([`roll`]). From then on
//! the mirror signs what it says of names ([`seal`]), and the client signs when it asks for a token ([`gate`]).

mod gate;
mod join;
mod peer_key;
mod roll;
mod seal;

pub use gate::{Gate, GateError};
pub use join::{Invitation, JoinCode, JoinError, JoinProof, JoinRequest, ask_to_join};
pub use peer_key::{PeerKey, PeerKeyError};
pub use roll::{Known, Roll, RollError};
pub use seal::Seal;
