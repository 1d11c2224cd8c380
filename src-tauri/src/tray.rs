//! The tray icon. What it shows is decided in [`menu`], what its rows do in [`act`]; here it is drawn.
//!
//! It is drawn at most once a second. While only words change, the menu that is open keeps its rows and their texts are replaced,
//! so that it does not close under its user's hand. Where the system has no place for tray icons, all of this is without effect.

mod act;
pub(crate) mod menu;

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tauri::image::Image;
use tauri::menu::{CheckMenuItem, IsMenuItem, Menu, MenuItem, PredefinedMenuItem, Submenu};
use tauri::tray::{MouseButton, MouseButtonState, TrayIcon, TrayIconBuilder, TrayIconEvent};
use tauri::{AppHandle, Wry};
use tokio::sync::watch;

use crate::seen::Seen;
use crate::window;
use menu::{Action, Entry, Face, Icon, face};

const BETWEEN_DRAWINGS: Duration = Duration::from_secs(1);

/// What the rows that are shown do, by their identity.
type Actions = Arc<Mutex<HashMap<String, Action>>>;

/// Puts the icon up and keeps it drawn.
///
/// # Errors
/// This system cannot have one; the library for it may be missing.
pub(crate) fn put_up(app: &AppHandle, seen: watch::Receiver<Seen>) -> anyhow::Result<()> {
    let actions = Actions::default();
    let clicked = actions.clone();
    let build = || {
        TrayIconBuilder::with_id("main")
            .icon(image(Icon::Idle))
            .icon_as_template(cfg!(target_os = "macos"))
            .show_menu_on_left_click(cfg!(target_os = "macos"))
            .on_menu_event(move |app, event| {
                let actions = clicked.lock().unwrap_or_else(PoisonError::into_inner);
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
    // Linux's library is loaded at this moment, and its binding panics where there is none.
    let icon =
        panic::catch_unwind(AssertUnwindSafe(build)).map_err(|_| anyhow::anyhow!("its library is missing"))??;
    tauri::async_runtime::spawn(keep_drawn(app.clone(), icon, actions, seen));
    Ok(())
}

async fn keep_drawn(app: AppHandle, icon: TrayIcon, actions: Actions, mut seen: watch::Receiver<Seen>) {
    let mut drawn: Option<(Face, Vec<Row>)> = None;
    loop {
        let face = face(&seen.borrow_and_update());
        match draw(&app, &icon, &actions, drawn.take(), face) {
            Ok(now) => drawn = Some(now),
            Err(error) => eprintln!("the tray cannot be drawn: {error}"),
        }
        tokio::time::sleep(BETWEEN_DRAWINGS).await;
        if seen.changed().await.is_err() {
            return;
        }
    }
}

/// Draws what differs from the last time.
fn draw(
    app: &AppHandle,
    icon: &TrayIcon,
    actions: &Actions,
    before: Option<(Face, Vec<Row>)>,
    face: Face,
) -> tauri::Result<(Face, Vec<Row>)> {
    let old = before.as_ref().map(|(old, _)| old);
    if old.map(|old| old.icon) != Some(face.icon) {
        icon.set_icon(Some(image(face.icon)))?;
        icon.set_icon_as_template(cfg!(target_os = "macos"))?;
    }
    if old.map(|old| &old.title) != Some(&face.title) {
        // A title that was shown goes away by an empty one.
        icon.set_title(Some(face.title.as_deref().unwrap_or_default()))?;
    }
    if let Some((old, rows)) = before
        && fits(&old.entries, &face.entries)
    {
        if old.entries != face.entries {
            reword(&rows, &face.entries)?;
        }
        return Ok((face, rows));
    }
    let mut made = Made::default();
    let menu = Menu::new(app)?;
    for entry in &face.entries {
        menu.append(made.row(app, entry)?.as_ref())?;
    }
    *actions.lock().unwrap_or_else(PoisonError::into_inner) = made.actions;
    icon.set_menu(Some(menu))?;
    Ok((face, made.rows))
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

/// A row that was drawn, for its words to be replaced.
enum Row {
    Item(MenuItem<Wry>),
    Check(CheckMenuItem<Wry>),
    /// One whose words never change.
    Fixed,
}

/// Whether the same rows with the same deeds are there, so that it is enough to replace words.
fn fits(old: &[Entry], new: &[Entry]) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|pair| match pair {
            (Entry::Note(_), Entry::Note(_)) | (Entry::Separator, Entry::Separator) => true,
            (Entry::Item(_, old), Entry::Item(_, new)) | (Entry::Check(_, old, _), Entry::Check(_, new, _)) => {
                old == new
            }
            // The words above a submenu stay as they were made: Linux's menus do not take new ones.
            (Entry::Submenu(old, above), Entry::Submenu(new, below)) => old == new && fits(above, below),
            _ => false,
        })
}

/// Replaces the words of rows, which are there in the order in which [`Made::row`] made them.
fn reword(rows: &[Row], entries: &[Entry]) -> tauri::Result<()> {
    fn each<'a>(entries: &'a [Entry], all: &mut Vec<&'a Entry>) {
        for entry in entries {
            all.push(entry);
            if let Entry::Submenu(_, below) = entry {
                each(below, all);
            }
        }
    }
    let mut all = Vec::new();
    each(entries, &mut all);
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

/// Rows as they are made.
#[derive(Default)]
struct Made {
    /// A submenu comes before its own rows.
    rows: Vec<Row>,
    actions: HashMap<String, Action>,
}

impl Made {
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

    /// An identity that says what the row does: a click on a row that has just gone can never do what another one says.
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
    fn only_the_same_deeds_are_reworded() {
        let item = |text: &str, id| Entry::Item(text.into(), Action::Pause(vec![id]));
        let check = |old: &[Entry], new: &[Entry], expected| assert_eq!(fits(old, new), expected, "{old:?}, {new:?}");
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
