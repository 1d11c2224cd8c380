//! The tray's menu, as the desktop's panel reads it from the message bus (`com.canonical.dbusmenu`).

use std::process::Command;

use crate::cairn::{succeeded, text};
use crate::deadline::output;
use crate::screen::Screen;

const INTERFACE: &str = "com.canonical.dbusmenu";

/// A menu on the bus.
struct Menu {
    /// Bus name of its process.
    owner: String,
    path: String,
}

/// Returns the labels of all rows in order; empty without a tray icon.
pub(crate) fn labels(screen: &Screen) -> Vec<String> {
    rows(screen).into_iter().map(|(_, label)| label).collect()
}

/// Clicks the row with this label.
pub(crate) fn click(screen: &Screen, label: &str) {
    let menu = find(screen).expect("a tray icon exists");
    let rows = rows(screen);
    let (id, _) =
        rows.iter().find(|(_, found)| found == label).unwrap_or_else(|| panic!("{label:?} is not in {rows:?}"));
    let mut call = send(screen, &menu.owner, &menu.path, &format!("{INTERFACE}.Event"));
    call.args([&format!("int32:{id}"), "string:clicked", "variant:int32:0", "uint32:0"]);
    succeeded(&output(&mut call));
}

/// Returns the id and label of each row. A row is printed as a structure with its id first and its label as a property.
fn rows(screen: &Screen) -> Vec<(i32, String)> {
    let Some(menu) = find(screen) else { return Vec::new() };
    let mut call = send(screen, &menu.owner, &menu.path, &format!("{INTERFACE}.GetLayout"));
    // From the root, to any depth, with the property `label`.
    call.args(["int32:0", "int32:-1", "array:string:label"]);
    let stdout = text(&output(&mut call).stdout);
    let mut rows = Vec::new();
    let (mut id, mut is_label, mut in_row) = (0, false, false);
    for line in stdout.lines().map(str::trim) {
        if line.ends_with("struct {") {
            in_row = true;
        } else if let Some(number) = line.strip_prefix("int32 ").filter(|_| in_row) {
            id = number.parse().expect("an id is a number");
            in_row = false;
        } else if line == "string \"label\"" {
            is_label = true;
        } else if let Some(label) = line.strip_prefix("variant ").map(str::trim).filter(|_| is_label) {
            let label = label.strip_prefix("string \"").and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
            // An underscore marks a shortcut; two are a literal underscore.
            rows.push((id, label.replace("__", "_")));
            is_label = false;
        }
    }
    rows
}

/// Finds the app's menu: on any connection to the bus, below a path that the tray icon library chooses.
fn find(screen: &Screen) -> Option<Menu> {
    let names = output(&mut send(screen, "org.freedesktop.DBus", "/", "org.freedesktop.DBus.ListNames"));
    let names = text(&names.stdout);
    let owners = names.lines().filter_map(|line| line.trim().strip_prefix("string \"")?.strip_suffix('"'));
    for owner in owners.filter(|owner| owner.starts_with(':')) {
        let mut path = "/org/ayatana/NotificationItem".to_owned();
        while let Some(child) = child(screen, owner, &path) {
            path = format!("{path}/{child}");
            if child == "Menu" {
                return Some(Menu { owner: owner.to_owned(), path });
            }
        }
    }
    None
}

/// Returns the name of the first object below a path.
fn child(screen: &Screen, owner: &str, path: &str) -> Option<String> {
    let mut call = send(screen, owner, path, "org.freedesktop.DBus.Introspectable.Introspect");
    let stdout = text(&output(&mut call).stdout);
    let (_, rest) = stdout.split_once("<node name=\"")?;
    Some(rest.split_once('"')?.0.to_owned())
}

fn send(screen: &Screen, owner: &str, path: &str, method: &str) -> Command {
    let mut command = screen.command("dbus-send");
    command.args(["--session", "--print-reply", "--reply-timeout=5000", &format!("--dest={owner}"), path, method]);
    command
}
