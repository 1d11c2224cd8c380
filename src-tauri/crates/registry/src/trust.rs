//! Trust between machines: key exchange, trusted peers, and signatures.
//!
//! An ed25519 key identifies a machine. Two machines exchange their keys once over an untrusted network, authenticated by
//! a code that the user carries from one to the other ([`join`]). Each stores the other's key ([`peer_list`]). From then on
//! the mirror signs its manifest digests ([`crate::manifest_signature`]), and the client signs its token requests ([`token_issuer`]).

mod join;
mod peer_list;
mod token_issuer;

pub use join::{Invitation, JoinCode, JoinError, JoinProof, JoinRequest, join_mirror};
pub use peer_list::{PeerList, PeerListError, TrustedPeer};
pub use token_issuer::{TokenError, TokenIssuer};
