//! `/app/tools`: servers of tools (MCP), the tools of this program, and permissions. Only this machine has access, because a server
//! can be any program of this user.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, patch, post, put};
use cairn_app::tools::{self, Endpoint, Permission, ServerConfig, ServerStatus, Tools, ToolsStatus};
use cairn_wire::app::{
    AddToolServerRequest, ImportToolsRequest, ImportToolsResponse, ListedTool, OmittedTool, OriginTools,
    ToolPermission, ToolPermissionRequest, ToolServer, ToolServerChange, ToolsChange, ToolsResponse,
};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/tools", get(status).patch(change))
        .route("/app/tools/servers", post(add))
        .route("/app/tools/servers/{name}", patch(change_server).delete(remove))
        .route("/app/tools/import", post(import))
        .route("/app/tools/origins/{origin}", get(origin))
        .route("/app/tools/permission", put(permit))
}

async fn status(State(server): State<Server>) -> Response {
    json(StatusCode::OK, &listed(server.app().tools()))
}

async fn change(State(server): State<Server>, Body(request): Body<ToolsChange>) -> Result<Response, ApiError> {
    let tools = server.app().tools();
    // A folder that cannot be read is refused, and then nothing is changed.
    if let Some(folder) = request.folder {
        tools.set_folder(folder.filter(|path| !path.is_empty()).map(PathBuf::from)).await?;
    }
    if let Some(web) = request.web {
        tools.set_pages(web).await?;
    }
    Ok(json(StatusCode::OK, &listed(tools)))
}

async fn add(State(server): State<Server>, Body(request): Body<AddToolServerRequest>) -> Result<Response, ApiError> {
    let AddToolServerRequest { name, command, args, variables, url, headers } = request;
    let endpoint = match (command, url) {
        (Some(command), None) => Endpoint::Stdio { command, args, env: variables },
        (None, Some(url)) => Endpoint::Http { url, headers },
        _ => return Err(ApiError::bad_request("a server of tools needs either \"command\" or \"url\"")),
    };
    server.app().tools().add(ServerConfig { name, endpoint }, true).await?;
    Ok(json(StatusCode::OK, &listed(server.app().tools())))
}

async fn import(State(server): State<Server>, Body(request): Body<ImportToolsRequest>) -> Result<Response, ApiError> {
    let names = server.app().tools().import(&request.text).await?;
    Ok(json(StatusCode::OK, &ImportToolsResponse { names, tools: listed(server.app().tools()) }))
}

async fn change_server(
    State(server): State<Server>,
    Path(name): Path<String>,
    Body(request): Body<ToolServerChange>,
) -> Result<Response, ApiError> {
    server.app().tools().set_enabled(&name, request.enabled).await?;
    Ok(json(StatusCode::OK, &listed(server.app().tools())))
}

async fn remove(State(server): State<Server>, Path(name): Path<String>) -> Result<Response, ApiError> {
    server.app().tools().remove(&name).await?;
    Ok(json(StatusCode::OK, &listed(server.app().tools())))
}

async fn origin(State(server): State<Server>, Path(origin): Path<String>) -> Result<Response, ApiError> {
    let list = server.app().tools().list(&origin).await?;
    let omitted = |tool: tools::OmittedTool| OmittedTool { name: tool.name, reason: tool.reason.to_string() };
    let listed = OriginTools {
        tools: list.tools.into_iter().map(row).collect(),
        omitted: list.omitted.into_iter().map(omitted).collect(),
        omitted_count: list.omitted_count as u64,
    };
    Ok(json(StatusCode::OK, &listed))
}

async fn permit(
    State(server): State<Server>,
    Body(request): Body<ToolPermissionRequest>,
) -> Result<StatusCode, ApiError> {
    let ToolPermissionRequest { origin, tool, permission } = request;
    let permission = match permission {
        ToolPermission::Ask => Permission::Ask,
        ToolPermission::Always => Permission::Always,
        ToolPermission::Never => Permission::Never,
    };
    server.app().tools().set_permission(&origin, &tool, permission).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn listed(tools: &Tools) -> ToolsResponse {
    let ToolsStatus { servers, has_pages, folder } = tools.status();
    ToolsResponse {
        servers: servers.into_iter().map(server_row).collect(),
        web: has_pages,
        folder: folder.map(|folder| folder.to_string_lossy().into_owned()),
    }
}

/// Omits the values of variables and headers, and the query of a URL: they may be secrets.
fn server_row(server: ServerStatus) -> ToolServer {
    let ServerStatus { name, endpoint, is_enabled, is_running } = server;
    let names = |values: BTreeMap<String, String>| values.into_keys().collect();
    let (command, args, variables, url, headers) = match endpoint {
        Endpoint::Stdio { command, args, env } => (Some(command), args, names(env), None, Vec::new()),
        Endpoint::Http { url, headers } => {
            let shown = url.split(['?', '#']).next().unwrap_or_default().to_owned();
            (None, Vec::new(), Vec::new(), Some(shown), names(headers))
        }
    };
    ToolServer { name, command, args, variables, url, headers, enabled: is_enabled, running: is_running }
}

fn row(listed: tools::ListedTool) -> ListedTool {
    let tools::ListedTool { tool, permission } = listed;
    let permission = match permission {
        Permission::Ask => ToolPermission::Ask,
        Permission::Always => ToolPermission::Always,
        Permission::Never => ToolPermission::Never,
    };
    ListedTool { name: tool.name, description: tool.description, arguments: tool.input_schema, permission }
}
