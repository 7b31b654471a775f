//! Columns of text, as compact as a model and a person can both read.

/// A table with two spaces between cells; the last column is not padded.
#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The widest cell of each column, in characters.
    widths: Vec<usize>,
    /// Bytes of the unpadded last column, and what other cells have beyond one byte a
    /// character.
    free_bytes: usize,
}

impl Table {
    /// An empty table.
    pub(crate) fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        let header: Vec<_> = header
            .into_iter()
            .map(|cell| one_line(cell.into()))
            .collect();
        let widths = header.iter().map(|cell| cell.chars().count()).collect();
        Self {
            header,
            rows: Vec::new(),
            widths,
            free_bytes: 0,
        }
    }

    /// Adds a row; line breaks inside a cell become spaces.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(
            cells.len(),
            self.header.len(),
            "a row has a cell per column"
        );
        let cells: Vec<_> = cells.into_iter().map(one_line).collect();
        self.measure(&cells);
        self.rows.push(cells);
    }

    /// Takes the last row back.
    pub(crate) fn undo(&mut self) {
        self.rows.pop();
        let rows = std::mem::take(&mut self.rows);
        *self = Self::new(std::mem::take(&mut self.header));
        for row in rows {
            self.row(row);
        }
    }

    /// The upper bound of the text's length: padded columns are as wide as their widest
    /// cell.
    pub(crate) fn bytes(&self) -> usize {
        let padded: usize = self
            .widths
            .iter()
            .rev()
            .skip(1)
            .map(|width| width + 2)
            .sum();
        (self.rows.len() + 1) * (padded + 1) + self.free_bytes
    }

    fn measure(&mut self, cells: &[String]) {
        let last = cells.len().saturating_sub(1);
        for (index, (width, cell)) in self.widths.iter_mut().zip(cells).enumerate() {
            let characters = cell.chars().count();
            self.free_bytes += if index == last {
                cell.len()
            } else {
                cell.len() - characters
            };
            *width = (*width).max(characters);
        }
    }

    /// The text, one line per row.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        for row in std::iter::once(&self.header).chain(&self.rows) {
            let last = row.len().saturating_sub(1);
            for (index, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
                text.push_str(cell);
                if index < last {
                    text.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
                }
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }
}

fn one_line(cell: String) -> String {
    if cell.contains(['\n', '\r', '\t']) {
        return cell.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if cell.is_empty() {
        "-".to_owned()
    } else {
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_rows_stay_on_one_line() {
        let mut table = Table::new(["NAME", "MESSAGE"]);
        table.row(vec!["a-long-name".to_owned(), "first\n\tsecond".to_owned()]);
        table.row(vec!["ä".to_owned(), String::new()]);
        let expected = "NAME         MESSAGE\na-long-name  first second\nä            -\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn the_length_is_known_before_the_text_is_made() {
        let mut table = Table::new(["NAME", "MESSAGE"]);
        for row in [
            ["a", "short"],
            ["ß", "a much longer message, and no padding after it"],
            ["ccc", "€"],
        ] {
            table.row(row.map(str::to_owned).to_vec());
            let (known, real) = (table.bytes(), table.render().len());
            assert!(
                known >= real.saturating_sub(8) && known <= real + 16,
                "{known} for {real}"
            );
        }
        let before = table.render();
        table.row(vec!["x".repeat(50), String::new()]);
        table.undo();
        assert_eq!(table.render(), before);
    }
}
