use super::forest::{Entry, Forest, Node, NodeKind, Selection, Shown};
use crate::amount::{self, Bar};
use crate::screen::{Screen, Tone, harmless_line};
use meta::quantity::Quantity;
use std::fmt::Write as _;

/// Letters of a bar on a wide terminal, and on a narrow one.
const BAR_MAX: usize = 24;
const BAR_MIN: usize = 8;
/// Columns that are kept for the phase and the name for people.
const PEOPLE: usize = 32;
const GAP: &str = "  ";

/// One line, before it is known how wide the columns are.
struct DrawnLine<'a> {
    /// The lines before the name that lead to it.
    lead: String,
    /// The node, on its first line.
    node: Option<&'a Node>,
    figures: Option<Figures<'a>>,
}

/// A share as it is read.
struct Figures<'a> {
    entry: Entry<'a>,
    bar: Option<Bar>,
    tone: Tone,
    percent: String,
    used: String,
    allocated: String,
    hard: String,
}

/// Widths of the columns; 0 for a column that the terminal has no room for.
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

/// How a node hangs on the tree.
struct Branch<'a> {
    at: usize,
    /// Before its own name.
    own: String,
    /// Before everything below it.
    below: String,
    selection: &'a Selection<'a>,
}

/// The letters that lines are made of.
struct Twigs {
    middle: &'static str,
    last: &'static str,
    through: &'static str,
}

const DRAWN: Twigs = Twigs { middle: "├─ ", last: "└─ ", through: "│  " };
const PLAIN: Twigs = Twigs { middle: "|- ", last: "`- ", through: "|  " };
const EMPTY: &str = "   ";

/// The whole tree, line by line.
pub(super) fn lines(
    forest: &Forest,
    roots: &[usize],
    selection: &Selection<'_>,
    shown: &Shown,
    screen: Screen,
    wide: bool,
) -> String {
    let twigs = if screen.unicode { DRAWN } else { PLAIN };
    let mut lines: Vec<DrawnLine<'_>> = Vec::with_capacity(forest.nodes.len());
    let mut waiting: Vec<Branch<'_>> = Vec::new();
    let begin = |at: &usize| Branch { at: *at, own: String::new(), below: String::new(), selection };
    waiting.extend(roots.iter().rev().map(begin));
    while let Some(branch) = waiting.pop() {
        let Some(node) = forest.nodes.get(branch.at) else { continue };
        let children: Vec<usize> = node.children.iter().filter(|child| shown.has(**child)).copied().collect();
        let on = format!("{}{}", branch.below, if children.is_empty() { EMPTY } else { twigs.through });
        take(&mut lines, node, &branch, &on, wide);
        for (back, child) in children.iter().rev().enumerate() {
            let (twig, on) = if back == 0 { (twigs.last, EMPTY) } else { (twigs.middle, twigs.through) };
            waiting.push(Branch {
                at: *child,
                own: format!("{}{twig}", branch.below),
                below: format!("{}{on}", branch.below),
                selection,
            });
        }
    }
    written(&lines, screen, wide)
}

/// The lines of one node; `on` leads to those behind the first.
fn take<'a>(lines: &mut Vec<DrawnLine<'a>>, node: &'a Node, branch: &Branch<'a>, on: &str, wide: bool) {
    let first = lines.len();
    let figures = branch.selection.of(node).map(|entry| Some(Figures::of(entry, node.kind, wide)));
    lines.extend(figures.map(|figures| DrawnLine { lead: on.to_owned(), node: None, figures }));
    if lines.len() == first {
        lines.push(DrawnLine { lead: String::new(), node: None, figures: None });
    }
    if let Some(line) = lines.get_mut(first) {
        line.lead.clone_from(&branch.own);
        line.node = Some(node);
    }
}

fn written(lines: &[DrawnLine<'_>], screen: Screen, wide: bool) -> String {
    let widths = Widths::of(lines, screen, wide);
    let mut text = String::with_capacity(lines.len() * (widths.total() + PEOPLE));
    let mut title = String::new();
    let Widths { name, cluster, resource, bar, percent, used, allocated, hard } = widths;
    for (word, width) in [("NAME", name), ("WHERE", cluster), ("RESOURCE", resource), ("", bar)] {
        push(&mut title, word, width, false);
    }
    for (word, width) in [("%", percent), ("USED", used), ("ALLOCATED", allocated), ("HARD", hard)] {
        push(&mut title, word, width, true);
    }
    if wide {
        title.push_str("  PHASE  FOR PEOPLE");
    }
    text.push_str(&screen.paint(Tone::Faint, title.trim_end()));
    text.push('\n');
    for line in lines {
        let begin = text.len();
        line.write(&mut text, screen, widths, wide);
        let end = text.trim_end_matches(' ').len().max(begin);
        text.truncate(end);
        text.push('\n');
    }
    text
}

/// Appends a column; nothing if it has no room.
fn push(line: &mut String, text: &str, width: usize, right: bool) {
    if width == 0 {
        return;
    }
    if !line.is_empty() {
        line.push_str(GAP);
    }
    let pad = width.saturating_sub(text.chars().count());
    let (before, behind) = if right { (pad, 0) } else { (0, pad) };
    line.extend(std::iter::repeat_n(' ', before));
    line.push_str(text);
    line.extend(std::iter::repeat_n(' ', behind));
}

impl<'a> Figures<'a> {
    fn of(entry: Entry<'a>, kind: NodeKind, wide: bool) -> Self {
        let share = *entry.share;
        let percent = share.percent(kind);
        let shown = |one: Quantity| if wide { one.to_string() } else { amount::brief(one) };
        Self {
            bar: share.hard.map(|hard| Bar { hard, allocated: share.taken(kind), used: share.used.0 }),
            tone: amount::tone(percent),
            percent: percent
                .map_or_else(String::new, |percent| format!("{percent}{:2}", amount::mark(Some(percent)))),
            used: shown(share.used.0),
            allocated: amount::with_held(share.allocated.0, share.held.0, shown),
            hard: share.hard.map_or_else(|| "-".to_owned(), shown),
            entry,
        }
    }
}

impl Widths {
    fn of(lines: &[DrawnLine<'_>], screen: Screen, wide: bool) -> Self {
        let mut widths = Self {
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
            widths.name = widths.name.max(line.lead.chars().count() + name);
            let Some(figures) = &line.figures else { continue };
            widths.cluster = widths.cluster.max(figures.entry.cluster.chars().count());
            widths.resource = widths.resource.max(figures.entry.resource.chars().count());
            widths.percent = widths.percent.max(figures.percent.len());
            widths.used = widths.used.max(figures.used.len());
            widths.allocated = widths.allocated.max(figures.allocated.len());
            widths.hard = widths.hard.max(figures.hard.len());
        }
        let room = screen.width.saturating_sub(if wide { PEOPLE } else { 0 });
        // Wide output, and output for programs, has every column.
        if screen.wraps && !wide {
            widths.leave_out(room);
        }
        if widths.bar > 0 {
            let others = widths.total().saturating_sub(widths.bar);
            widths.bar = room.saturating_sub(others).clamp(BAR_MIN, BAR_MAX);
        }
        widths
    }

    /// The columns that say least go first: the lines below show who is given something, and the bar says the same as
    /// the percentage.
    fn leave_out(&mut self, room: usize) {
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

impl DrawnLine<'_> {
    fn write(&self, text: &mut String, screen: Screen, widths: Widths, wide: bool) {
        let Widths { name, cluster, resource, bar, percent, used, allocated, hard } = widths;
        let (label, tone) = self.node.map_or((String::new(), Tone::Plain), |node| {
            (label(node), if node.kind == NodeKind::Namespace { Tone::Plain } else { Tone::Head })
        });
        let pad = name.saturating_sub(self.lead.chars().count() + label.chars().count());
        text.push_str(&screen.paint(Tone::Faint, &self.lead));
        text.push_str(&screen.paint(tone, &label));
        text.extend(std::iter::repeat_n(' ', pad));
        if let Some(figures) = &self.figures {
            push(text, figures.entry.cluster, cluster, false);
            push(text, figures.entry.resource, resource, false);
            if bar > 0 {
                text.push_str(GAP);
                let filled = figures.bar.map(|filled| filled.shown(screen, bar));
                text.push_str(&filled.unwrap_or_else(|| " ".repeat(bar)));
            }
            text.push_str(GAP);
            text.push_str(&screen.paint(figures.tone, &format!("{:>percent$}", figures.percent)));
            push(text, &figures.used, used, true);
            push(text, &figures.allocated, allocated, true);
            push(text, &figures.hard, hard, true);
        }
        if let Some(node) = self.node.filter(|_| wide) {
            let _infallible = write!(text, "{GAP}{}{GAP}{}", node.phase, harmless_line(&node.display_name));
        }
    }
}

/// `tenant acme`; others by their names, with what is unusual about them.
fn label(node: &Node) -> String {
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
        let shown = forest.shown(&forest.roots, &ALL);
        let drawn = |screen, wide| lines(&forest, &forest.roots, &ALL, &shown, screen, wide);
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
        let shown = forest.shown(&forest.roots, &ALL);
        let drawn = |screen, wide| lines(&forest, &forest.roots, &ALL, &shown, screen, wide);
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
