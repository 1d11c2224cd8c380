//! The window: made once, hidden when it is closed, and shown again by the tray, a link or a second start.
//!
//! It shows the page that is part of this program and no other: every address that leads elsewhere is refused here, and opened in
//! the user's browser only by the command for it.

use tauri::webview::NewWindowResponse;
use tauri::{AppHandle, Manager, Url, WebviewUrl, WebviewWindowBuilder, Window, WindowEvent};
use tauri_plugin_dialog::{DialogExt, MessageDialogButtons, MessageDialogKind};
use tauri_plugin_window_state::{AppHandleExt, StateFlags};

use crate::choices::Closing;
use crate::shell::{self, Shell};

/// Its name, which the capabilities are given to.
pub(crate) const LABEL: &str = "main";

/// What of the window is the same the next time. Whether it is seen is not: who starts the app wants to see it.
pub(crate) const REMEMBERED: StateFlags =
    StateFlags::SIZE.union(StateFlags::POSITION).union(StateFlags::MAXIMIZED).union(StateFlags::FULLSCREEN);

/// What runs before the page's own scripts.
const GUARD: &str = include_str!("guard.js");

/// Shows the window and gives it the keyboard, at a screen of the page where one is named.
pub(crate) fn show(app: &AppHandle, route: Option<&str>) {
    let Some(window) = app.get_webview_window(LABEL) else {
        // A window is not made on the thread that waits for this event: on Windows neither would ever be done.
        let (app, route) = (app.clone(), route.map(str::to_owned));
        std::thread::spawn(move || open_or_tell(&app, route.as_deref()));
        return;
    };
    let shown = window.show().and_then(|()| window.unminimize()).and_then(|()| window.set_focus());
    let led = shown.and_then(|()| match route {
        Some(route) => {
            let hash = serde_json::to_string(&format!("#/{route}")).expect("text is JSON");
            window.eval(format!("location.hash = {hash}"))
        }
        None => Ok(()),
    });
    if let Err(error) = led {
        eprintln!("the window cannot be shown: {error}");
    }
}

/// Makes the window. Where that fails, it says so and all else goes on.
pub(crate) fn open_or_tell(app: &AppHandle, route: Option<&str>) {
    let Err(error) = open(app, route) else { return };
    let why = format!("{error}. Cairn goes on without it: `cairn ui` opens the same page in a browser.");
    eprintln!("the window cannot be opened: {why}");
    let words = Shell::of(app).seen().language.words();
    app.dialog().message(why).title(words.no_window).kind(MessageDialogKind::Error).show(|_| {});
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

/// Whether an address is the page's own.
fn is_own(url: &Url) -> bool {
    match url.scheme() {
        "tauri" => url.host_str() == Some("localhost"),
        // Windows has no schemes of one's own, and gives the page this address.
        "http" | "https" => cfg!(windows) && url.host_str() == Some("tauri.localhost"),
        _ => false,
    }
}

/// What closing does is its user's choice, and the first time they are asked.
pub(crate) fn on_event(window: &Window, event: &WindowEvent) {
    let WindowEvent::CloseRequested { api, .. } = event else { return };
    api.prevent_close();
    let app = window.app_handle();
    if let Err(error) = app.save_window_state(REMEMBERED) {
        eprintln!("the window's place is not remembered: {error}");
    }
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        let closing = Shell::of(&app).closing().await;
        close(&app, closing);
    });
}

fn close(app: &AppHandle, closing: Closing) {
    match closing {
        Closing::Ask => ask(app),
        Closing::Quit => shell::quit(app),
        Closing::Tray => {
            if let Some(window) = app.get_webview_window(LABEL)
                && let Err(error) = window.hide()
            {
                eprintln!("the window cannot be hidden: {error}");
            }
        }
    }
}

fn ask(app: &AppHandle) {
    let words = Shell::of(app).seen().language.words();
    // Who closes the question by Escape has not chosen to end anything.
    let buttons = MessageDialogButtons::OkCancelCustom(words.close_quit.into(), words.close_keep.into());
    let mut question = app.dialog().message(words.close_question).title(words.close_title).buttons(buttons);
    if let Some(window) = app.get_webview_window(LABEL) {
        question = question.parent(&window);
    }
    let app = app.clone();
    question.show(move |quits| {
        let closing = if quits { Closing::Quit } else { Closing::Tray };
        Shell::of(&app).choose(closing);
        close(&app, closing);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_stays_with_its_own_page() {
        let check = |address: &str, expected: bool| {
            let url = Url::parse(address).expect("these are addresses");
            assert_eq!(is_own(&url), expected, "{address}");
        };
        check("tauri://localhost/index.html", true);
        check("tauri://localhost/", true);
        check("tauri://elsewhere/", false);
        check("http://tauri.localhost/", cfg!(windows));
        check("http://127.0.0.1:11434/ui/", false);
        check("https://example.org/", false);
        check("file:///etc/passwd", false);
        check("data:text/html,x", false);
        check("about:blank", false);
    }
}
