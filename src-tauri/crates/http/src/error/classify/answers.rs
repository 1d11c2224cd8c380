//! Errors of answers and chats.

use cairn_app::inference::{FormatError, GenerateError, PictureError, TemplateError};
use cairn_app::{chats, inference};
use cairn_wire::{ErrorCode as Code, excerpt};

use super::library::{of_library, of_load, of_option};
use super::remotes::of_call;
use super::tools::of_tools;
use super::{BAD, BUSY, CONFLICT, Class, INTERNAL, NOT_FOUND, UNSUPPORTED, of_cache, with_reason};

pub(in crate::error) fn of_inference(error: &inference::Error) -> Class {
    use inference::Error as E;
    match error {
        E::Library(error) => of_library(error),
        E::Cache(error) => of_cache(error),
        E::Remote(error) => of_call(error),
        E::Unsupported(feature) => Class::new(UNSUPPORTED, Code::Unsupported).with("feature", feature),
        E::NoThinking(model) => Class::new(BAD, Code::ThinkingUnsupported).with("model", model),
        E::NoAnswers { model, .. } => {
            Class::new(BAD, Code::CapabilityMissing).with("model", model).with("capability", "completion")
        }
        E::NoEmbeddings(model) => {
            Class::new(UNSUPPORTED, Code::CapabilityMissing).with("model", model).with("capability", "embedding")
        }
        E::ScoresPairs(model) => {
            Class::new(BAD, Code::CapabilityMissing).with("model", model).with("capability", "embedding")
        }
        E::InputTooLong { tokens, max_tokens } => {
            Class::new(BAD, Code::PromptTooLong).with("prompt_tokens", tokens).with("context_tokens", max_tokens)
        }
        E::TooManyTexts { .. } | E::ForeignInput(_) | E::EmptyTokens | E::EmbeddingNotFinite => {
            with_reason(BAD, Code::InvalidRequest, error)
        }
        E::VisionUnusable { .. }
        | E::Image { .. }
        | E::TooManyImages { .. }
        | E::TooManyPixels { .. }
        | E::TooManyPixelBytes { .. }
        | E::Picture(PictureError::Invalid(_)) => with_reason(BAD, Code::InvalidRequest, error),
        E::Picture(PictureError::MemoryFull) => Class::new(BUSY, Code::ServerBusy),
        E::CapabilityMissing { model, capability, .. } => {
            Class::new(BAD, Code::CapabilityMissing).with("model", model).with("capability", capability)
        }
        E::VisionMissing { model } => {
            Class::new(BAD, Code::CapabilityMissing).with("model", model).with("capability", "vision")
        }
        E::Format(FormatError::Vocabulary(_) | FormatError::Thread) => {
            with_reason(INTERNAL, Code::GenerationFailed, error)
        }
        E::Format(_) | E::CallsNotEnforced { .. } | E::GrammarWithTools => {
            with_reason(BAD, Code::InvalidRequest, error)
        }
        E::RawWithTemplate | E::ForeignContext(_) => with_reason(BAD, Code::InvalidRequest, error),
        E::Option(error) => of_option(error),
        E::OptionRange { name, .. } => with_reason(BAD, Code::OptionInvalid, error).with("option", name),
        E::KvType(_) => with_reason(BAD, Code::OptionInvalid, error).with("option", "kv_cache_type"),
        E::ContextShift(_) => with_reason(BAD, Code::OptionInvalid, error).with("option", "context_shift"),
        E::TooLong { prompt_tokens, context_tokens } => Class::new(BAD, Code::PromptTooLong)
            .with("prompt_tokens", prompt_tokens)
            .with("context_tokens", context_tokens),
        E::TinyContext { prompt_tokens, context_tokens, least_tokens } => Class::new(BAD, Code::ContextTooSmall)
            .with("prompt_tokens", prompt_tokens)
            .with("context_tokens", context_tokens)
            .with("min_tokens", least_tokens),
        // Only a template of the request is parsed here; that of a model was parsed when it was loaded. A model with an
        // unknown renderer needs another template.
        E::Template(reason @ (TemplateError::Syntax { .. } | TemplateError::UnknownRenderer { .. })) => {
            with_reason(BAD, Code::TemplateInvalid, reason)
        }
        // The conversation is wrong for this model. Clients would repeat a request that fails with 500.
        E::Template(reason) => with_reason(BAD, Code::PromptFailed, reason),
        E::Load(error) => of_load(error),
        E::Generate(GenerateError::Displaced(reason)) => with_reason(BUSY, Code::GenerationDisplaced, reason),
        // The constraint is part of the request. Clients would repeat a request that fails with 500.
        E::Generate(reason @ GenerateError::Constraint(_)) => with_reason(BAD, Code::InvalidRequest, reason),
        E::Generate(reason) => with_reason(INTERNAL, Code::GenerationFailed, reason),
        E::EngineGone => Class::new(INTERNAL, Code::GenerationInterrupted),
        E::Panicked(error) => with_reason(INTERNAL, Code::Internal, error),
    }
}

pub(in crate::error) fn of_chats(error: &chats::Error) -> Class {
    use chats::{ChatsError as Store, Error as E};
    match error {
        E::Answering => Class::new(CONFLICT, Code::ChatAnswering),
        E::Deleted => Class::new(CONFLICT, Code::ChatInTrash),
        E::NoModel => Class::new(BAD, Code::ChatWithoutModel),
        E::NoCall(call) => Class::new(NOT_FOUND, Code::ToolCallNotFound).with("call", excerpt(call)),
        E::Empty => Class::new(BAD, Code::MessageEmpty),
        E::NoQuestion(message) | E::NoAnswer(message) => {
            Class::new(BAD, Code::MessageNotAnswerable).with("message", excerpt(message))
        }
        E::ShuttingDown => Class::new(BUSY, Code::GenerationInterrupted),
        E::Unclear | E::NotAnAnswer(_) | E::Relative(_) => with_reason(BAD, Code::InvalidRequest, error),
        E::Ollama(reason) => with_reason(BAD, Code::ChatImportFailed, reason),
        E::NoImport | E::Format { .. } => with_reason(BAD, Code::ChatImportFailed, error),
        E::Inference(error) => of_inference(error),
        E::Cache(error) => of_cache(error),
        // Only the permission of a tool is stored here.
        E::Tools(error) => of_tools(error),
        E::Store(Store::ChatNotFound(chat)) => Class::new(NOT_FOUND, Code::ChatNotFound).with("chat", excerpt(chat)),
        E::Store(Store::MessageNotFound(message)) => {
            Class::new(NOT_FOUND, Code::MessageNotFound).with("message", excerpt(message))
        }
        E::Store(Store::PresetNotFound(preset)) => {
            Class::new(NOT_FOUND, Code::PresetNotFound).with("preset", excerpt(preset))
        }
        E::Store(Store::InvalidPageCursor(_)) => with_reason(BAD, Code::InvalidRequest, error),
        E::Store(Store::Newer { path, .. }) => {
            Class::new(CONFLICT, Code::ChatsNewerVersion).with("path", path.display())
        }
        E::Store(Store::Foreign(_)) => with_reason(CONFLICT, Code::ChatsUnavailable, error),
        E::Store(Store::Damaged(_) | Store::CheckFailed(_) | Store::Repair { .. }) => {
            with_reason(INTERNAL, Code::ChatsDamaged, error)
        }
        E::Store(Store::DiskFull) => Class::new(INTERNAL, Code::ChatsDiskFull),
        E::Store(Store::ReadOnly) => Class::new(INTERNAL, Code::ChatsReadOnly),
        E::Store(
            Store::Open { .. }
            | Store::Backup { .. }
            | Store::Remove { .. }
            | Store::LogInUse
            | Store::Sql(_)
            | Store::Json(_),
        ) => with_reason(INTERNAL, Code::ChatsUnavailable, error),
        E::Repaired(repair) => with_reason(INTERNAL, Code::ChatsRepaired, &repair.reason)
            .with("path", repair.set_aside.display())
            .with("chats", repair.chats)
            .with("messages", repair.messages),
        E::NotErased(reason) => with_reason(INTERNAL, Code::ChatsNotErased, reason),
    }
}
