//! Columns of text, as compact as a model and a person can both read.

/// A table whose cells are separated by two spaces; the last column runs free.
#[derive(Debug)]
pub(crate) struct Table {
    header: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(header: &'static [&'static str]) -> Self {
        Self {
            header,
            rows: Vec::new(),
        }
    }

    /// Adds a row; line breaks inside a cell become spaces.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(
            cells.len(),
            self.header.len(),
            "a row has a cell per column"
        );
        self.rows.push(cells.into_iter().map(one_line).collect());
    }

    /// The text, one line per row.
    pub(crate) fn render(&self) -> String {
        let mut widths: Vec<usize> = self
            .header
            .iter()
            .map(|cell| cell.chars().count())
            .collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        let header: Vec<String> = self.header.iter().map(ToString::to_string).collect();
        for row in std::iter::once(&header).chain(&self.rows) {
            let last = row.len().saturating_sub(1);
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
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
        let mut table = Table::new(&["NAME", "MESSAGE"]);
        table.row(vec!["a-long-name".to_owned(), "first\n\tsecond".to_owned()]);
        table.row(vec!["ä".to_owned(), String::new()]);
        let expected = "NAME         MESSAGE\na-long-name  first second\nä            -\n";
        assert_eq!(table.render(), expected);
    }
}
