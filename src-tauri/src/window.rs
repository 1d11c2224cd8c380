//! The window: created once, hidden when closed, and shown again by the tray, a link or a second start.
//!
//! The window shows only the page that is part of this program. Navigation to other addresses is refused; the command
//! `open_external` opens them in the user's browser.

use tauri::webview::NewWindowResponse;
use tauri::{AppHandle, Manager, Url, WebviewUrl, WebviewWindowBuilder, Window, WindowEvent};
use tauri_plugin_dialog::{DialogExt, MessageDialogButtons, MessageDialogKind};
use tauri_plugin_window_state::{AppHandleExt, StateFlags};

use crate::choices::CloseAction;
use crate::shell::{self, Shell};

/// Label of the window, which the capabilities name.
pub(crate) const LABEL: &str = "main";

/// State of the window that is restored at the next start. Visibility is not: a start always shows the window.
pub(crate) const REMEMBERED: StateFlags =
    StateFlags::SIZE.union(StateFlags::POSITION).union(StateFlags::MAXIMIZED).union(StateFlags::FULLSCREEN);

/// Path of the frame of previews on the daemon. Its policy forbids it to be shown outside of the page.
const PREVIEW: &str = "/ui/preview.html";

/// Script that runs before the page's own scripts.
const GUARD: &str = include_str!("guard.js");

/// Shows and focuses the window, and opens the page's screen at `route`, if any.
pub(crate) fn show(app: &AppHandle, route: Option<&str>) {
    let Some(window) = app.get_webview_window(LABEL) else {
        // On Windows, creating a window on the event thread would deadlock.
        let (app, route) = (app.clone(), route.map(str::to_owned));
        std::thread::spawn(move || open_or_report(&app, route.as_deref()));
        return;
    };
    let shown = window.show().and_then(|()| window.unminimize()).and_then(|()| window.set_focus());
    let opened = shown.and_then(|()| match route {
        Some(route) => {
            let hash = serde_json::to_string(&format!("#/{route}")).expect("text is JSON");
            window.eval(format!("location.hash = {hash}"))
        }
        None => Ok(()),
    });
    if let Err(error) = opened {
        eprintln!("cannot show the window: {error}");
    }
}

/// Creates the window. Shows an error message if that fails; the app continues.
pub(crate) fn open_or_report(app: &AppHandle, route: Option<&str>) {
    let Err(error) = open(app, route) else { return };
    let text = format!("{error}. Cairn continues without a window: `cairn ui` opens the same page in a browser.");
    eprintln!("cannot open the window: {text}");
    let words = Shell::of(app).state().language.words();
    app.dialog().message(text).title(words.no_window).kind(MessageDialogKind::Error).show(|_| {});
}

fn open(app: &AppHandle, route: Option<&str>) -> tauri::Result<()> {
    let page = route.map_or_else(|| "index.html".to_owned(), |route| format!("index.html#/{route}"));
    WebviewWindowBuilder::new(app, LABEL, WebviewUrl::App(page.into()))
        .title("Cairn")
        .inner_size(1280.0, 832.0)
        .min_inner_size(480.0, 400.0)
        .initialization_script(GUARD)
        .on_navigation(is_own)
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .build()
        .map(drop)
}

/// Whether an address belongs to the page, or is the daemon's frame of previews. Some systems report the navigations of frames, too.
fn is_own(url: &Url) -> bool {
    match url.scheme() {
        "tauri" => url.host_str() == Some("localhost"),
        // Windows has no custom schemes and uses this address for the page.
        "http" | "https" if cfg!(windows) && url.host_str() == Some("tauri.localhost") => true,
        "http" => matches!(url.host_str(), Some("127.0.0.1" | "localhost")) && url.path() == PREVIEW,
        // The untrusted frame within the frame of previews. It has no address that a window could show.
        "about" => url.path() == "srcdoc",
        _ => false,
    }
}

/// Handles a close request according to the user's setting. The default asks the user.
pub(crate) fn on_event(window: &Window, event: &WindowEvent) {
    let WindowEvent::CloseRequested { api, .. } = event else { return };
    api.prevent_close();
    let app = window.app_handle();
    if let Err(error) = app.save_window_state(REMEMBERED) {
        eprintln!("cannot save the window state: {error}");
    }
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        let close_action = Shell::of(&app).current_close_action().await;
        close(&app, close_action);
    });
}

fn close(app: &AppHandle, close_action: CloseAction) {
    match close_action {
        CloseAction::Ask => ask(app),
        CloseAction::Quit => shell::quit(app),
        CloseAction::Tray => {
            if let Some(window) = app.get_webview_window(LABEL)
                && let Err(error) = window.hide()
            {
                eprintln!("cannot hide the window: {error}");
            }
        }
    }
}

fn ask(app: &AppHandle) {
    let words = Shell::of(app).state().language.words();
    // "Quit" is the first button, because Escape selects the second one.
    let buttons = MessageDialogButtons::OkCancelCustom(words.close_quit.into(), words.close_keep.into());
    let mut question = app.dialog().message(words.close_question).title(words.close_title).buttons(buttons);
    if let Some(window) = app.get_webview_window(LABEL) {
        question = question.parent(&window);
    }
    let app = app.clone();
    question.show(move |quits| {
        let close_action = if quits { CloseAction::Quit } else { CloseAction::Tray };
        Shell::of(&app).set_close_action(close_action);
        close(&app, close_action);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn navigation_is_limited_to_own_page() {
        let check = |address: &str, expected: bool| {
            let url = Url::parse(address).expect("these are addresses");
            assert_eq!(is_own(&url), expected, "{address}");
        };
        check("tauri://localhost/index.html", true);
        check("tauri://localhost/", true);
        check("tauri://elsewhere/", false);
        check("http://tauri.localhost/", cfg!(windows));
        check("http://127.0.0.1:11434/ui/", false);
        check("http://127.0.0.1:11434/ui/preview.html", true);
        check("http://localhost:1/ui/preview.html", true);
        check("http://example.org/ui/preview.html", false);
        check("https://127.0.0.1/ui/preview.html", false);
        check("about:srcdoc", true);
        check("https://example.org/", false);
        check("file:///etc/passwd", false);
        check("data:text/html,x", false);
        check("about:blank", false);
    }
}
