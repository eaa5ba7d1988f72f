//! The printed table: one row a figure, beside its rival.

/// Rows as they are measured.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<[String; 5]>);

impl Table {
    /// Adds a row: measure, ours, the rival's, ratio, goal; shows it at once, too.
    pub(crate) fn row(&mut self, measure: &str, ours: String, rival: String, ratio: Option<f64>, goal: &str) {
        let ratio = ratio.map_or_else(|| "–".to_owned(), |r| format!("{r:.2} ×"));
        let row = [measure.to_owned(), ours, rival, ratio, goal.to_owned()];
        progress(&row.join(" | "));
        self.0.push(row);
    }

    /// Prints it as Markdown, so that it can be kept.
    #[expect(clippy::print_stdout, reason = "the program's result")]
    pub(crate) fn print(&self) {
        println!("| measure | ours | rival | ratio | goal |\n|---|---|---|---|---|");
        for row in &self.0 {
            println!("| {} |", row.join(" | "));
        }
    }
}

/// Tells a waiting person what is going on.
#[expect(clippy::print_stderr, reason = "progress of a long run")]
pub(crate) fn progress(text: &str) {
    eprintln!("  {text}");
}
