//! Output for people: tables, colours on a terminal, progress on standard error.

use crate::failure::Failure;
use clap::ValueEnum;
use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use unicode_width::UnicodeWidthStr as _;

/// Columns if the terminal's width is unknown.
const WIDTH: usize = 100;
const COLUMN_GAP: &str = "  ";
/// A last column with fewer columns than this is not wrapped.
const ROOM_MIN: usize = 12;

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    Always,
    Never,
}

/// Properties of standard output: a terminal, a file or a pipe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    color: bool,
    /// Whether the locale is UTF-8.
    pub(crate) unicode: bool,
    /// Columns.
    pub(crate) width: usize,
    /// Whether long lines are wrapped. In a file or a pipe, each record is one line.
    pub(crate) wraps: bool,
}

/// The meaning of a text, which is shown by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Head,
    Faint,
    Good,
    High,
    Full,
}

/// Where the text of a column stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    title: &'static str,
    align: Align,
    /// Whether the column is left out if a line would be too long.
    optional: bool,
}

/// A column of texts.
pub(crate) fn left(title: &'static str) -> Column {
    Column { title, align: Align::Left, optional: false }
}

/// A column of bars, which repeat the numbers of other columns.
pub(crate) fn picture() -> Column {
    Column { title: "", align: Align::Left, optional: true }
}

/// A column of numbers.
pub(crate) fn right(title: &'static str) -> Column {
    Column { title, align: Align::Right, optional: false }
}

/// A table with a title row.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// One cell of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Screen {
    pub(crate) fn of_stdout(color: Color) -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let is_terminal = std::io::stdout().is_terminal();
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        let color = match color {
            Color::Auto => is_terminal && !dumb && set("NO_COLOR").is_none(),
            Color::Always => true,
            Color::Never => false,
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let unicode = locale.is_none_or(|locale| {
            let locale = locale.to_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        let columns = set("COLUMNS").and_then(|columns| columns.parse().ok());
        let terminal_width = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        Self { color, unicode, width: columns.or_else(terminal_width).unwrap_or(WIDTH), wraps: is_terminal }
    }

    /// The same for standard error.
    pub(crate) fn of_stderr(stdout: Self) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { color: stdout.color && is_terminal, wraps: is_terminal, ..stdout }
    }

    /// For tests: no colours, and no wrapping.
    #[cfg(test)]
    pub(crate) fn plain(unicode: bool) -> Self {
        Self { color: false, unicode, width: WIDTH, wraps: false }
    }

    /// For tests: a terminal of this many columns.
    #[cfg(test)]
    pub(crate) fn narrow(width: usize) -> Self {
        Self { color: false, unicode: true, width, wraps: true }
    }

    pub(crate) fn without_color(self) -> Self {
        Self { color: false, ..self }
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            _ if !self.color || text.is_empty() => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Head => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::High => "33",
            Tone::Full => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Wraps a text that begins at this column, between words. Only on a terminal.
    pub(crate) fn lines_of(self, text: &str, column: usize) -> Vec<String> {
        let room = self.width.saturating_sub(column);
        if !self.wraps || room < ROOM_MIN || text.width() <= room {
            return vec![text.to_owned()];
        }
        let (mut lines, mut line) = (Vec::new(), String::new());
        for word in text.split(' ') {
            if !line.is_empty() && line.width() + 1 + word.width() > room {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
        lines
    }

    /// The wrapped text with a hanging indent.
    pub(crate) fn hanging(self, text: &str, column: usize) -> String {
        self.lines_of(text, column).join(&format!("\n{}", " ".repeat(column)))
    }
}

impl Cell {
    pub(crate) fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: sanitize_line(&text.into()), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(Tone::Plain, text)
    }
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A line for each row, after `indent`. If a terminal is too narrow, optional columns are left out and the last
    /// column is wrapped.
    pub(crate) fn render(&self, screen: Screen, indent: &str) -> String {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.title.len()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        let gaps = COLUMN_GAP.len() * widths.len().saturating_sub(1);
        let is_narrow = screen.wraps && indent.len() + widths.iter().sum::<usize>() + gaps > screen.width;
        let titles = self.columns.iter().map(|column| Cell::toned(Tone::Faint, column.title)).collect();
        let mut text = String::new();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let mut line = indent.to_owned();
            let mut begin = indent.len();
            let places = row.iter().zip(&widths).zip(&self.columns);
            let mut places = places.filter(|(_, column)| !(is_narrow && column.optional)).peekable();
            while let Some(((cell, width), column)) = places.next() {
                let pad = " ".repeat(width.saturating_sub(cell.text.width()));
                let is_last = places.peek().is_none();
                let painted = match column.align {
                    Align::Left if is_last => {
                        let parts = screen.lines_of(&cell.text, begin);
                        let parts: Vec<String> =
                            parts.iter().map(|part| screen.paint(cell.tone, part)).collect();
                        parts.join(&format!("\n{}", " ".repeat(begin)))
                    }
                    Align::Left | Align::Right => screen.paint(cell.tone, &cell.text),
                };
                let [first, second] = match column.align {
                    Align::Left => [&painted, &pad],
                    Align::Right => [&pad, &painted],
                };
                line.extend([first.as_str(), second, COLUMN_GAP]);
                begin += width + COLUMN_GAP.len();
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Writes to standard output and flushes. A closed pipe is no error.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Other(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a warning of the server, as kubectl does.
pub(crate) fn warn(text: &str) {
    note(format_args!("Warning: {text}"));
}

/// Prints progress or a hint, to standard error.
pub(crate) fn note(text: impl Display) {
    let _closed = writeln!(std::io::stderr().lock(), "{text}");
}

/// Replaces control characters in a foreign text, so that it has no effect on the terminal.
pub(crate) fn sanitize(text: &str) -> String {
    let is_unsafe = |c: char| (c.is_control() && c != '\n') || is_bidi_control(c);
    text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

/// The same on one line, where a line break could forge another record.
pub(crate) fn sanitize_line(text: &str) -> String {
    sanitize(text).replace('\n', " ")
}

/// Whether a character changes the direction of the text after it.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Screen = Screen { color: false, unicode: true, width: 80, wraps: false };

    #[test]
    fn columns_stand_below_their_titles() {
        let mut table = Table::new(&[left("NAME"), right("HARD")]);
        table.row(["a".into(), "10".into()]);
        table.row([Cell::toned(Tone::Full, "longer"), "1000Gi".into()]);
        assert_eq!(table.render(PLAIN, ""), "NAME      HARD\na           10\nlonger  1000Gi\n");
        let coloured = table.render(Screen { color: true, ..PLAIN }, "");
        assert!(coloured.contains("\x1b[31mlonger\x1b[0m  1000Gi"), "{coloured:?}");
    }

    #[test]
    fn what_is_too_long_for_a_terminal_goes_on_below_its_column() {
        let mut table = Table::new(&[left("NAME"), picture(), left("WHY")]);
        table.row(["a".into(), "####".into(), "not while anything is charged there".into()]);
        let narrow = "  NAME  WHY\n  a     not while\n        anything is\n        charged there\n";
        assert_eq!(table.render(Screen::narrow(22), "  "), narrow);
        let whole = "  NAME        WHY\n  a     ####  not while anything is charged there\n";
        for screen in [Screen::narrow(49), Screen { width: 22, ..PLAIN }] {
            assert_eq!(table.render(screen, "  "), whole, "a pipe has one record a line");
        }
        let coloured = Screen { color: true, ..Screen::narrow(22) };
        let mut table = Table::new(&[left("NAME"), left("WHY")]);
        table.row(["a".into(), Cell::toned(Tone::Full, "not while anything")]);
        assert_eq!(
            table.render(coloured, "").lines().skip(1).collect::<Vec<_>>(),
            ["a     \x1b[31mnot while\x1b[0m", "      \x1b[31manything\x1b[0m"]
        );
        assert_eq!(Screen::narrow(10).lines_of("no room for words", 0), ["no room for words"]);
    }

    #[test]
    fn what_others_write_does_not_act_on_the_terminal() {
        assert_eq!(sanitize("a\x1b[2Jb\nc"), "a\u{fffd}[2Jb\nc");
        assert_eq!(sanitize("a\u{202e}b\u{2066}c\u{2069}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        let mut table = Table::new(&[left("NAME"), left("WHY")]);
        table.row(["a\nroot".into(), Cell::toned(Tone::Full, "b\x1b[2J")]);
        assert_eq!(table.render(PLAIN, ""), "NAME    WHY\na root  b\u{fffd}[2J\n");
    }

    #[test]
    fn wide_letters_take_two_columns() {
        let mut table = Table::new(&[left("NAME"), left("WHERE")]);
        table.row(["商店一".into(), "east".into()]);
        table.row(["e\u{301}".into(), "west".into()]);
        assert_eq!(table.render(PLAIN, ""), "NAME    WHERE\n商店一  east\ne\u{301}       west\n");
        assert_eq!(Screen::narrow(12).lines_of("商店一 商店二", 0), ["商店一", "商店二"]);
    }
}
