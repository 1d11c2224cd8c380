//! Ids of chats, and the owner of what is computed for a chat.

use cairn_tier::Owner;

/// Prefix of ids of temporary chats.
pub(super) const TEMPORARY: &str = "t-";
/// Random bytes of an id.
const ID_BYTES: usize = 12;
/// Prefix of owners that are chats.
pub(super) const OWNER: &str = "chat:";

/// Whether a chat is temporary: never written to a disk.
pub(super) fn is_temporary(id: &str) -> bool {
    id.starts_with(TEMPORARY)
}

/// Whether a text has the form of a stored chat's id.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == 2 * ID_BYTES && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// The owner of what is computed for a chat.
pub(super) fn owner(id: &str) -> Owner {
    Owner::new(&format!("{OWNER}{id}")).expect("chat ids are short enough for an owner")
}

/// A random id.
pub(super) fn new_id() -> String {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).expect("the system provided random numbers before");
    hex::encode(bytes)
}
