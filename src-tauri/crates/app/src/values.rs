//! Values that clients send and receive, which use cases take and return as they are. Other modules import them from
//! here, so that this file lists what `app` shares with the HTTP APIs.

pub(crate) use cairn_wire::{
    ErrorBody, KeepAlive, OptionError, Options, Overflow, Think, Timestamp, Truncated, Usage,
    app::KeyScope,
    app::chats::Sources,
    app::collections::{
        Collection, CollectionChange, CollectionDocument, CollectionHit, CollectionHits, CollectionResponse,
        DocumentStatus, MeaningSearch, NewCollectionRequest, WordsOnly,
    },
    app::documents::{DocumentPart, DocumentText, PartPlace},
    beginning, excerpt, go_duration, human_count,
    ollama::Message as OllamaMessage,
    ollama::{ChatRequest, FunctionCall, GenerateRequest, ShowResponse, ToolCall as OllamaToolCall},
};
