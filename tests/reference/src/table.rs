/// A table, row by row.
#[derive(Debug)]
pub(crate) struct Table(String);

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        let mut table = Self(String::new());
        table.row(columns.iter().map(|column| (*column).to_owned()));
        table.row(columns.iter().map(|_| "---".to_owned()));
        table
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| one_line(&cell)).collect();
        self.0.extend([format!("| {} |\n", cells.join(" | "))]);
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// As code, or nothing where there is none.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// What may stand in a cell. What looks like an element of HTML outside of code is none.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let parts = line
        .split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 0 { part.replace('<', "&lt;") } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_line_that_ends_no_cell() {
        let mut table = Table::new(&["a", "b"]);
        table.row(["x | y\n z".to_owned(), "<W> `<V>`".to_owned()]);
        assert_eq!(table.as_str(), "| a | b |\n| --- | --- |\n| x \\| y z | &lt;W> `<V>` |\n");
        assert_eq!((code("").as_str(), code("a").as_str()), ("", "`a`"));
    }
}
