//! The handle of chats. Clones share everything.

use std::sync::Arc;

use cairn_chats::Chats;

use super::error::{DescribeError, Error};
use super::ids::is_temporary;
use super::state::ChatState;
use crate::cache::KvCache;
use crate::clock::Clock;
use crate::collections::Collections;
use crate::inference::Inference;
use crate::settings::Settings;
use crate::tools::Tools;
use crate::values::Timestamp;

/// Chats that the daemon stores, and their answers in progress. Methods that are not async block on the database.
#[derive(Clone)]
pub struct ChatSessions {
    pub(super) state: Arc<ChatState>,
    pub(super) inference: Inference,
    pub(super) cache: KvCache,
    pub(super) tools: Tools,
    pub(super) collections: Collections,
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Clock,
    pub(super) describe: DescribeError,
}

impl ChatSessions {
    pub(crate) fn new(
        inference: &Inference,
        cache: &KvCache,
        tools: &Tools,
        collections: &Collections,
        settings: &Arc<Settings>,
        clock: &Clock,
        describe: DescribeError,
    ) -> Self {
        Self {
            state: Arc::new(ChatState::new(settings.places().data.join("chats").join("chats.sqlite"), clock.clone())),
            inference: inference.clone(),
            cache: cache.clone(),
            tools: tools.clone(),
            collections: collections.clone(),
            settings: Arc::clone(settings),
            clock: clock.clone(),
            describe,
        }
    }

    /// Returns the database that has this chat.
    pub(super) fn chats_of(&self, id: &str) -> Result<Arc<Chats>, Error> {
        if is_temporary(id) { self.state.temporary() } else { self.state.stored(self.now_ms()) }
    }

    /// Erases deleted chats and writes a backup if it is due. Must be the last call. Blocks.
    pub fn close(&self) {
        self.state.close();
    }

    pub(super) fn now_ms(&self) -> i64 {
        Timestamp(self.clock.now()).unix_ms()
    }
}
