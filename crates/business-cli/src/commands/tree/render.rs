use super::forest::{Entry, Forest, NodeKind, Selection, TreeNode, VisibleNodes};
use crate::amount::{self, Bar};
use crate::screen::{Align, Screen, Tone, sanitize_line};
use meta::quantity::Quantity;
use std::fmt::Write as _;

/// Characters of a bar, on a wide terminal and on a narrow one.
const BAR_MAX: usize = 24;
const BAR_MIN: usize = 8;
/// Columns for the phase and the display name.
const PHASE_AND_NAME_WIDTH: usize = 32;
const GAP: &str = "  ";

/// What is shown of the trees, and on what screen.
pub(super) struct TreeView<'a> {
    pub(super) forest: &'a Forest,
    pub(super) selection: &'a Selection<'a>,
    pub(super) visible: &'a VisibleNodes,
    pub(super) screen: Screen,
    /// With every column, and with exact amounts.
    pub(super) wide: bool,
}

/// One line of the tree, before the widths of the columns are known.
struct TreeLine<'a> {
    /// The branches before the name.
    prefix: String,
    /// The node, on the first of its lines.
    node: Option<&'a TreeNode>,
    usage: Option<FormattedUsage<'a>>,
}

/// An entry with formatted amounts.
struct FormattedUsage<'a> {
    entry: Entry<'a>,
    bar: Option<Bar>,
    tone: Tone,
    percent: String,
    used: String,
    allocated: String,
    hard: String,
}

/// Widths of the columns; 0 if a column is left out.
#[derive(Clone, Copy, Debug)]
struct Widths {
    name: usize,
    cluster: usize,
    resource: usize,
    bar: usize,
    percent: usize,
    used: usize,
    allocated: usize,
    hard: usize,
}

/// A node that is still to be rendered, with its branches.
struct PendingNode {
    at: usize,
    /// The prefix of its name.
    prefix: String,
    /// The prefix of all lines below it.
    child_prefix: String,
}

/// The characters of branches.
struct BranchGlyphs {
    middle: &'static str,
    last: &'static str,
    through: &'static str,
}

const UNICODE_GLYPHS: BranchGlyphs = BranchGlyphs { middle: "├─ ", last: "└─ ", through: "│  " };
const ASCII_GLYPHS: BranchGlyphs = BranchGlyphs { middle: "|- ", last: "`- ", through: "|  " };
const BLANK: &str = "   ";

impl<'a> TreeView<'a> {
    /// Renders the trees.
    pub(super) fn render(&self, roots: &[usize]) -> String {
        let glyphs = if self.screen.unicode { UNICODE_GLYPHS } else { ASCII_GLYPHS };
        let mut lines: Vec<TreeLine<'a>> = Vec::with_capacity(self.forest.nodes.len());
        let mut waiting: Vec<PendingNode> = Vec::new();
        let begin = |at: &usize| PendingNode { at: *at, prefix: String::new(), child_prefix: String::new() };
        waiting.extend(roots.iter().rev().map(begin));
        while let Some(pending) = waiting.pop() {
            let Some(node) = self.forest.nodes.get(pending.at) else { continue };
            let children: Vec<usize> =
                node.children.iter().filter(|child| self.visible.contains(**child)).copied().collect();
            let continuation = format!(
                "{}{}",
                pending.child_prefix,
                if children.is_empty() { BLANK } else { glyphs.through }
            );
            self.push_node_lines(&mut lines, node, &pending.prefix, &continuation);
            for (back, child) in children.iter().rev().enumerate() {
                let (glyph, continuation) =
                    if back == 0 { (glyphs.last, BLANK) } else { (glyphs.middle, glyphs.through) };
                waiting.push(PendingNode {
                    at: *child,
                    prefix: format!("{}{glyph}", pending.child_prefix),
                    child_prefix: format!("{}{continuation}", pending.child_prefix),
                });
            }
        }
        self.render_lines(&lines)
    }

    /// Adds the lines of one node: `prefix` is before its name, `continuation` before all lines after the first.
    fn push_node_lines(
        &self,
        lines: &mut Vec<TreeLine<'a>>,
        node: &'a TreeNode,
        prefix: &str,
        continuation: &str,
    ) {
        let first = lines.len();
        let usage = self
            .selection
            .entries_of(node)
            .map(|entry| Some(FormattedUsage::of(entry, node.kind, self.wide)));
        lines.extend(usage.map(|usage| TreeLine { prefix: continuation.to_owned(), node: None, usage }));
        if lines.len() == first {
            lines.push(TreeLine { prefix: String::new(), node: None, usage: None });
        }
        if let Some(line) = lines.get_mut(first) {
            prefix.clone_into(&mut line.prefix);
            line.node = Some(node);
        }
    }

    fn render_lines(&self, lines: &[TreeLine<'_>]) -> String {
        let widths = self.widths(lines);
        let mut text = String::with_capacity(lines.len() * (widths.total() + PHASE_AND_NAME_WIDTH));
        text.push_str(&self.screen.paint(Tone::Faint, self.title(widths).trim_end()));
        text.push('\n');
        for line in lines {
            let begin = text.len();
            self.push_line(&mut text, line, widths);
            let end = text.trim_end_matches(' ').len().max(begin);
            text.truncate(end);
            text.push('\n');
        }
        text
    }

    /// The names of the columns.
    fn title(&self, widths: Widths) -> String {
        let Widths { name, cluster, resource, bar, percent, used, allocated, hard } = widths;
        let mut title = String::new();
        for (word, width) in [("NAME", name), ("WHERE", cluster), ("RESOURCE", resource), ("", bar)] {
            push_column(&mut title, word, width, Align::Left);
        }
        for (word, width) in [("%", percent), ("USED", used), ("ALLOCATED", allocated), ("HARD", hard)] {
            push_column(&mut title, word, width, Align::Right);
        }
        if self.wide {
            title.push_str("  PHASE  FOR PEOPLE");
        }
        title
    }

    fn widths(&self, lines: &[TreeLine<'_>]) -> Widths {
        let mut widths = Widths {
            name: 4,
            cluster: 5,
            resource: 8,
            bar: BAR_MIN,
            percent: 1,
            used: 4,
            allocated: 9,
            hard: 4,
        };
        for line in lines {
            let name = line.node.map_or(0, |node| label(node).chars().count());
            widths.name = widths.name.max(line.prefix.chars().count() + name);
            let Some(usage) = &line.usage else { continue };
            widths.cluster = widths.cluster.max(usage.entry.cluster.chars().count());
            widths.resource = widths.resource.max(usage.entry.resource.chars().count());
            widths.percent = widths.percent.max(usage.percent.len());
            widths.used = widths.used.max(usage.used.len());
            widths.allocated = widths.allocated.max(usage.allocated.len());
            widths.hard = widths.hard.max(usage.hard.len());
        }
        let room = self.screen.width.saturating_sub(if self.wide { PHASE_AND_NAME_WIDTH } else { 0 });
        // Wide output, and output for programs, has every column.
        if self.screen.wraps && !self.wide {
            widths.drop_columns(room);
        }
        if widths.bar > 0 {
            let others = widths.total().saturating_sub(widths.bar);
            widths.bar = room.saturating_sub(others).clamp(BAR_MIN, BAR_MAX);
        }
        widths
    }

    fn push_line(&self, text: &mut String, line: &TreeLine<'_>, widths: Widths) {
        let Widths { name, cluster, resource, bar, percent, used, allocated, hard } = widths;
        let (label, tone) = line.node.map_or((String::new(), Tone::Plain), |node| {
            (label(node), if node.kind == NodeKind::Namespace { Tone::Plain } else { Tone::Head })
        });
        let pad = name.saturating_sub(line.prefix.chars().count() + label.chars().count());
        text.push_str(&self.screen.paint(Tone::Faint, &line.prefix));
        text.push_str(&self.screen.paint(tone, &label));
        text.extend(std::iter::repeat_n(' ', pad));
        if let Some(usage) = &line.usage {
            push_column(text, usage.entry.cluster, cluster, Align::Left);
            push_column(text, usage.entry.resource, resource, Align::Left);
            if bar > 0 {
                text.push_str(GAP);
                let filled = usage.bar.map(|filled| filled.render(self.screen, bar));
                text.push_str(&filled.unwrap_or_else(|| " ".repeat(bar)));
            }
            text.push_str(GAP);
            text.push_str(&self.screen.paint(usage.tone, &format!("{:>percent$}", usage.percent)));
            push_column(text, &usage.used, used, Align::Right);
            push_column(text, &usage.allocated, allocated, Align::Right);
            push_column(text, &usage.hard, hard, Align::Right);
        }
        if let Some(node) = line.node.filter(|_| self.wide) {
            let _infallible = write!(text, "{GAP}{}{GAP}{}", node.phase, sanitize_line(&node.display_name));
        }
    }
}

/// Appends a column, unless its width is 0.
fn push_column(line: &mut String, text: &str, width: usize, align: Align) {
    if width == 0 {
        return;
    }
    if !line.is_empty() {
        line.push_str(GAP);
    }
    let pad = width.saturating_sub(text.chars().count());
    let (before, behind) = match align {
        Align::Left => (0, pad),
        Align::Right => (pad, 0),
    };
    line.extend(std::iter::repeat_n(' ', before));
    line.push_str(text);
    line.extend(std::iter::repeat_n(' ', behind));
}

impl<'a> FormattedUsage<'a> {
    fn of(entry: Entry<'a>, kind: NodeKind, wide: bool) -> Self {
        let quota = *entry.quota;
        let percent = quota.percent(kind);
        let shown = |one: Quantity| if wide { one.to_string() } else { amount::short_text(one) };
        Self {
            bar: quota.hard.map(|hard| Bar { hard, allocated: quota.taken(kind), used: quota.used.0 }),
            tone: amount::tone(percent),
            percent: percent
                .map_or_else(String::new, |percent| format!("{percent}{:2}", amount::mark(Some(percent)))),
            used: shown(quota.used.0),
            allocated: amount::with_held(quota.allocated.0, quota.held.0, shown),
            hard: quota.hard.map_or_else(|| "-".to_owned(), shown),
            entry,
        }
    }
}

impl Widths {
    /// Leaves out the least useful columns first: the lines below show what is allocated, and the bar repeats the
    /// percentage.
    fn drop_columns(&mut self, room: usize) {
        if self.total() > room {
            self.allocated = 0;
        }
        if self.total() > room {
            self.bar = 0;
        }
        if self.total() > room {
            self.used = 0;
        }
    }

    /// The width of a line, with the gaps between its columns.
    fn total(self) -> usize {
        let Self { name, cluster, resource, bar, percent, used, allocated, hard } = self;
        let all = [name, cluster, resource, bar, percent, used, allocated, hard];
        let shown = all.iter().filter(|width| **width > 0).count();
        all.iter().sum::<usize>() + GAP.len() * shown.saturating_sub(1)
    }
}

/// `tenant acme`; others by name, with an unusual phase.
fn label(node: &TreeNode) -> String {
    match (node.kind, node.phase.as_str()) {
        (NodeKind::Tenant, _) => format!("tenant {}", node.name),
        (_, "" | "Active" | "Available") => node.name.clone(),
        (_, phase) => format!("{} ({phase})", node.name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::forest::tests::{ALL, forest};
    use super::*;

    #[test]
    fn a_tree_is_drawn_with_bars() {
        let forest = forest();
        let visible = forest.visible(&forest.roots, &ALL);
        let drawn = |screen, wide| {
            TreeView { forest: &forest, selection: &ALL, visible: &visible, screen, wide }
                .render(&forest.roots)
        };
        let expected = "\
NAME                 WHERE  RESOURCE                                    %   USED  ALLOCATED  HARD
tenant acme          east   requests.cpu  ██▒▒▒▒▒▒▒▒▒▒············   50        2         10    20
└─ shop              east   pods          ▒▒▒▒····················   20        0         20   100
   │                 east   requests.cpu  ████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒·····   80!       2          8    10
   └─ web            east   pods          ▒▒▒▒····················   20        0         20   100
      │              east   requests.cpu  ██████▒▒▒▒▒▒▒▒▒▒▒▒▒·····   81!       2      6500m     8
      ├─ east/back   east   requests.cpu  ██████··················   25     500m          3     2
      └─ east/front  east   requests.cpu  ██████████████████······   75    1500m          3     2
lone                 east   pods          ▒▒▒▒····················   20        0         20   100
                     east   requests.cpu  ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  100!!      0          1     1
";
        assert_eq!(drawn(Screen::plain(true), false), expected);
        let plain = drawn(Screen::plain(false), true);
        assert!(plain.is_ascii(), "{plain}");
        assert!(plain.contains("`- east/front") && plain.contains("1500m"), "{plain}");
    }

    #[test]
    fn a_narrow_terminal_gets_the_columns_that_say_most() {
        let forest = forest();
        let visible = forest.visible(&forest.roots, &ALL);
        let drawn = |screen, wide| {
            TreeView { forest: &forest, selection: &ALL, visible: &visible, screen, wide }
                .render(&forest.roots)
        };
        let title = |columns| drawn(Screen::narrow(columns), false).lines().next().unwrap().to_owned();
        for (columns, words) in [
            (110, "NAME WHERE RESOURCE % USED ALLOCATED HARD"),
            (80, "NAME WHERE RESOURCE % USED HARD"),
            (60, "NAME WHERE RESOURCE % USED HARD"),
            (53, "NAME WHERE RESOURCE % HARD"),
        ] {
            let title = title(columns);
            assert_eq!(title.split_whitespace().collect::<Vec<_>>().join(" "), words, "{columns}");
            let drawn = drawn(Screen::narrow(columns), false);
            assert!(drawn.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{drawn}");
            assert_eq!(drawn.contains('\u{2592}'), columns > 60, "{columns}:\n{drawn}");
        }
        let wide = drawn(Screen::narrow(60), true);
        assert!(wide.contains("ALLOCATED") && wide.contains("FOR PEOPLE"), "all is asked for: {wide}");
        let mut pipe = Screen::plain(true);
        pipe.width = 60;
        let piped = drawn(pipe, false);
        assert!(piped.contains("ALLOCATED"), "a pipe has every column: {piped}");
    }
}
