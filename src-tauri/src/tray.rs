//! Draws the tray icon. [`menu`] computes its content, and [`act`] runs its actions.
//!
//! The icon is drawn at most once a second. If only texts differ, they are replaced in the existing menu, because a new
//! menu would close an open one. On a system without a tray, this has no effect.

mod act;
pub(crate) mod menu;

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tauri::image::Image;
use tauri::menu::{CheckMenuItem, IsMenuItem, Menu, MenuItem, PredefinedMenuItem, Submenu};
use tauri::tray::{MouseButton, MouseButtonState, TrayIcon, TrayIconBuilder, TrayIconEvent};
use tauri::{AppHandle, Wry};
use tokio::sync::watch;

use crate::seen::ShellState;
use crate::window;
use menu::{Action, Entry, Icon, TrayView, view};

const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Actions of the menu rows, by row id.
type Actions = Arc<Mutex<HashMap<String, Action>>>;

/// Creates the icon and redraws it when the state changes.
///
/// # Errors
/// The system has no tray, or its library is missing.
pub(crate) fn create(app: &AppHandle, state: watch::Receiver<ShellState>) -> anyhow::Result<()> {
    let actions = Actions::default();
    let clicked = actions.clone();
    let build = || {
        TrayIconBuilder::with_id("main")
            .icon(image(Icon::Idle))
            .icon_as_template(cfg!(target_os = "macos"))
            .show_menu_on_left_click(cfg!(target_os = "macos"))
            .on_menu_event(move |app, event| {
                let actions = clicked.lock();
                if let Some(action) = actions.get(event.id().as_ref()) {
                    act::act(app, action.clone());
                }
            })
            .on_tray_icon_event(|tray, event| {
                let up = MouseButtonState::Up;
                if matches!(event, TrayIconEvent::Click { button: MouseButton::Left, button_state, .. } if button_state == up) {
                    window::show(tray.app_handle(), None);
                }
            })
            .build(app)
    };
    // This loads the tray library on Linux, whose binding panics if it is missing.
    let icon =
        panic::catch_unwind(AssertUnwindSafe(build)).map_err(|_| anyhow::anyhow!("the tray library is missing"))??;
    tauri::async_runtime::spawn(keep_drawn(app.clone(), icon, actions, state));
    Ok(())
}

async fn keep_drawn(app: AppHandle, icon: TrayIcon, actions: Actions, mut state: watch::Receiver<ShellState>) {
    let mut drawn: Option<(TrayView, Vec<Row>)> = None;
    loop {
        let view = view(&state.borrow_and_update());
        match draw(&app, &icon, &actions, drawn.take(), view) {
            Ok(now) => drawn = Some(now),
            Err(error) => eprintln!("cannot draw the tray: {error}"),
        }
        tokio::time::sleep(REDRAW_INTERVAL).await;
        if state.changed().await.is_err() {
            return;
        }
    }
}

/// Draws the differences to the previous view.
fn draw(
    app: &AppHandle,
    icon: &TrayIcon,
    actions: &Actions,
    before: Option<(TrayView, Vec<Row>)>,
    view: TrayView,
) -> tauri::Result<(TrayView, Vec<Row>)> {
    let old = before.as_ref().map(|(old, _)| old);
    if old.map(|old| old.icon) != Some(view.icon) {
        icon.set_icon(Some(image(view.icon)))?;
        icon.set_icon_as_template(cfg!(target_os = "macos"))?;
    }
    if old.map(|old| &old.title) != Some(&view.title) {
        // An empty title removes the previous one.
        icon.set_title(Some(view.title.as_deref().unwrap_or_default()))?;
    }
    if let Some((old, rows)) = before
        && has_same_rows(&old.entries, &view.entries)
    {
        if old.entries != view.entries {
            replace_texts(&rows, &view.entries)?;
        }
        return Ok((view, rows));
    }
    let mut builder = MenuBuilder::default();
    let menu = Menu::new(app)?;
    for entry in &view.entries {
        menu.append(builder.row(app, entry)?.as_ref())?;
    }
    *actions.lock() = builder.actions;
    icon.set_menu(Some(menu))?;
    Ok((view, builder.rows))
}

fn image(icon: Icon) -> Image<'static> {
    #[cfg(target_os = "macos")]
    return match icon {
        Icon::Idle => tauri::include_image!("../icons/tray-template.png"),
        Icon::Active => tauri::include_image!("../icons/tray-active-template.png"),
        Icon::Attention => tauri::include_image!("../icons/tray-attention-template.png"),
    };
    #[cfg(not(target_os = "macos"))]
    match icon {
        Icon::Idle => tauri::include_image!("../icons/tray.png"),
        Icon::Active => tauri::include_image!("../icons/tray-active.png"),
        Icon::Attention => tauri::include_image!("../icons/tray-attention.png"),
    }
}

/// A drawn row, with access to its text.
enum Row {
    Item(MenuItem<Wry>),
    Check(CheckMenuItem<Wry>),
    /// A row without a changing text.
    Fixed,
}

/// Whether both menus have the same rows with the same actions, so that replacing texts is enough.
fn has_same_rows(old: &[Entry], new: &[Entry]) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|pair| match pair {
            (Entry::Note(_), Entry::Note(_)) | (Entry::Separator, Entry::Separator) => true,
            (Entry::Item(_, old), Entry::Item(_, new)) | (Entry::Check(_, old, _), Entry::Check(_, new, _)) => {
                old == new
            }
            // The title of a submenu cannot be replaced on Linux.
            (Entry::Submenu(old, old_rows), Entry::Submenu(new, new_rows)) => {
                old == new && has_same_rows(old_rows, new_rows)
            }
            _ => false,
        })
}

/// Replaces the texts of rows. The rows have the order in which [`MenuBuilder::row`] made them.
fn replace_texts(rows: &[Row], entries: &[Entry]) -> tauri::Result<()> {
    fn flatten<'a>(entries: &'a [Entry], all: &mut Vec<&'a Entry>) {
        for entry in entries {
            all.push(entry);
            if let Entry::Submenu(_, below) = entry {
                flatten(below, all);
            }
        }
    }
    let mut all = Vec::new();
    flatten(entries, &mut all);
    for (row, entry) in rows.iter().zip(all) {
        match (row, entry) {
            (Row::Item(row), Entry::Note(text) | Entry::Item(text, _)) => row.set_text(text)?,
            (Row::Check(row), Entry::Check(text, _, on)) => {
                row.set_text(text)?;
                row.set_checked(*on)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Builds the rows of a menu.
#[derive(Default)]
struct MenuBuilder {
    /// All rows; a submenu precedes its own rows.
    rows: Vec<Row>,
    actions: HashMap<String, Action>,
}

impl MenuBuilder {
    fn row(&mut self, app: &AppHandle, entry: &Entry) -> tauri::Result<Box<dyn IsMenuItem<Wry>>> {
        Ok(match entry {
            Entry::Note(text) => {
                let item = MenuItem::new(app, text, false, None::<&str>)?;
                self.rows.push(Row::Item(item.clone()));
                Box::new(item)
            }
            Entry::Item(text, action) => {
                let item = MenuItem::with_id(app, self.id(action), text, true, None::<&str>)?;
                self.rows.push(Row::Item(item.clone()));
                Box::new(item)
            }
            Entry::Check(text, action, on) => {
                let item = CheckMenuItem::with_id(app, self.id(action), text, true, *on, None::<&str>)?;
                self.rows.push(Row::Check(item.clone()));
                Box::new(item)
            }
            Entry::Submenu(text, entries) => {
                let submenu = Submenu::new(app, text, true)?;
                self.rows.push(Row::Fixed);
                for entry in entries {
                    submenu.append(self.row(app, entry)?.as_ref())?;
                }
                Box::new(submenu)
            }
            Entry::Separator => {
                self.rows.push(Row::Fixed);
                Box::new(PredefinedMenuItem::separator(app)?)
            }
        })
    }

    /// Registers an action and returns the row's id. The id is made of the action, so a click on a row that was just
    /// replaced cannot run the action of another row.
    fn id(&mut self, action: &Action) -> String {
        let id = format!("{action:?}");
        self.actions.insert(id.clone(), action.clone());
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn menu_keeps_rows_only_with_same_actions() {
        let item = |text: &str, id| Entry::Item(text.into(), Action::Pause(vec![id]));
        let check =
            |old: &[Entry], new: &[Entry], expected| assert_eq!(has_same_rows(old, new), expected, "{old:?}, {new:?}");
        check(&[item("1 %", 1)], &[item("2 %", 1)], true);
        check(&[item("1 %", 1)], &[item("1 %", 2)], false);
        check(&[item("1 %", 1)], &[item("1 %", 1), Entry::Separator], false);
        check(&[Entry::Note("a".into())], &[item("a", 1)], false);
        let below = |id| [Entry::Submenu("a".into(), vec![item("b", id)])];
        check(&below(1), &below(1), true);
        check(&below(1), &below(2), false);
        check(&below(1), &[Entry::Submenu("c".into(), vec![item("b", 1)])], false);
        let checked = |on| [Entry::Check("a".into(), Action::Autostart, on)];
        check(&checked(true), &checked(false), true);
    }
}
