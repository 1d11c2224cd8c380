//! Tables in `ollama`'s format: no lines, and every column padded to its width plus four blanks, including the last.

/// Blanks after the widest cell of a column.
const GAP: usize = 4;

/// Formats rows as text, one line each.
pub(crate) fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0) + GAP).collect();
    let mut text = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(&widths) {
            text += &format!("{cell:width$}");
        }
        text.push('\n');
    }
    text
}

/// Makes a row of texts.
pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_columns_are_padded() {
        let text = render(&[row(["NAME", "SIZE"]), row(["pebble:latest", "7 MB"])]);
        assert_eq!(text, "NAME             SIZE    \npebble:latest    7 MB    \n", "four blanks after the widest");
    }
}
