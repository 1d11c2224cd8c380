//! Errors of managing tools.

use cairn_app::tools::{Error, MAX_SERVERS};
use cairn_wire::ErrorCode as Code;

use super::{BAD, BAD_GATEWAY, CONFLICT, Class, INTERNAL, NOT_FOUND, with_reason};

pub(super) fn of_tools(error: &Error) -> Class {
    use Error as E;
    match error {
        E::Config(_) | E::Import(_) | E::TooLarge => with_reason(BAD, Code::ToolServerInvalid, error),
        E::Reserved(name) | E::Taken(name) => Class::new(CONFLICT, Code::ToolServerNameTaken).with("name", name),
        E::NotFound(name) => Class::new(NOT_FOUND, Code::ToolServerNotFound).with("name", name),
        E::NoTool { origin, tool } => Class::new(NOT_FOUND, Code::ToolNotFound).with("name", origin).with("tool", tool),
        E::Off(name) => Class::new(CONFLICT, Code::ToolServerOff).with("name", name),
        E::TooMany => Class::new(CONFLICT, Code::TooManyToolServers).with("limit", MAX_SERVERS),
        E::Permissions(_) => Class::new(CONFLICT, Code::TooManyToolPermissions),
        E::Folder(reason) => with_reason(BAD, Code::ToolFolderUnreadable, reason),
        E::Server(reason) => with_reason(BAD_GATEWAY, Code::ToolServerFailed, reason),
        E::Network(reason) => with_reason(INTERNAL, Code::ProxyInvalid, reason),
        E::Unreadable { path, reason } => {
            with_reason(CONFLICT, Code::ToolsUnreadable, reason).with("path", path.display())
        }
        E::Unwritten(reason) => with_reason(INTERNAL, Code::ToolsUnwritable, reason),
    }
}
