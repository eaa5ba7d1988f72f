use super::forest::{Entry, Forest, Node, NodeKind, Selection};
use crate::amount::{self, Bar};
use crate::screen::{Screen, Tone, harmless};
use meta::quantity::Quantity;
use std::fmt::Write as _;

/// Letters of a bar on a wide terminal, and on a narrow one.
const BAR_MAX: usize = 24;
const BAR_MIN: usize = 8;
const PERCENT: usize = 6;
/// What is kept for phase and name for people.
const PEOPLE: usize = 32;
const GAP: &str = "  ";

/// One line, before it is known how wide the columns are.
struct DrawnLine<'a> {
    /// What stands before the name: lines that lead to it.
    lead: String,
    kind: NodeKind,
    /// The node, on its first line.
    node: Option<&'a Node>,
    entry: Option<Entry<'a>>,
}

/// Widths of the columns.
#[derive(Clone, Copy, Debug, Default)]
struct Widths {
    name: usize,
    cluster: usize,
    resource: usize,
    amount: usize,
    bar: usize,
}

/// How a node hangs on the tree.
struct Branch<'a> {
    at: usize,
    /// Before its own name.
    own: String,
    /// Before everything below it.
    below: String,
    level: usize,
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
    screen: Screen,
    wide: bool,
) -> String {
    let twigs = if screen.unicode { DRAWN } else { PLAIN };
    let mut lines: Vec<DrawnLine<'_>> = Vec::with_capacity(forest.nodes.len());
    let mut waiting: Vec<Branch<'_>> = Vec::new();
    let begin =
        |at: &usize| Branch { at: *at, own: String::new(), below: String::new(), level: 1, selection };
    waiting.extend(roots.iter().rev().map(begin));
    while let Some(branch) = waiting.pop() {
        let Some(node) = forest.nodes.get(branch.at) else { continue };
        let shown = |child: &&usize| branch.level < selection.depth && forest.shows(**child, selection);
        let children: Vec<usize> = node.children.iter().filter(shown).copied().collect();
        take(&mut lines, node, &branch, !children.is_empty(), &twigs);
        for (back, child) in children.iter().rev().enumerate() {
            let (twig, on) = if back == 0 { (twigs.last, EMPTY) } else { (twigs.middle, twigs.through) };
            waiting.push(Branch {
                at: *child,
                own: format!("{}{twig}", branch.below),
                below: format!("{}{on}", branch.below),
                level: branch.level + 1,
                selection,
            });
        }
    }
    written(&lines, screen, wide)
}

/// The lines of one node.
fn take<'a>(
    lines: &mut Vec<DrawnLine<'a>>,
    node: &'a Node,
    branch: &Branch<'a>,
    has_children: bool,
    twigs: &Twigs,
) {
    let first = lines.len();
    lines.extend(branch.selection.of(node).map(|entry| DrawnLine {
        lead: String::new(),
        kind: node.kind,
        node: None,
        entry: Some(entry),
    }));
    if lines.len() == first {
        lines.push(DrawnLine { lead: String::new(), kind: node.kind, node: None, entry: None });
    }
    let on = format!("{}{}", branch.below, if has_children { twigs.through } else { EMPTY });
    for (number, line) in lines.iter_mut().skip(first).enumerate() {
        if number == 0 {
            line.lead.clone_from(&branch.own);
            line.node = Some(node);
        } else {
            line.lead.clone_from(&on);
        }
    }
}

fn written(lines: &[DrawnLine<'_>], screen: Screen, wide: bool) -> String {
    let widths = Widths::of(lines, screen, wide);
    let mut text = String::with_capacity(lines.len() * (widths.name + widths.bar + 80));
    let Widths { name, cluster, resource, amount, bar } = widths;
    let title = format!(
        "{:name$}{GAP}{:cluster$}{GAP}{:resource$}{GAP}{:bar$}{:>PERCENT$}{GAP}{:>amount$}{GAP}{:>amount$}{GAP}{:>amount$}{}",
        "NAME",
        "CLUSTER",
        "RESOURCE",
        "",
        "%",
        "USED",
        "ALLOCATED",
        "HARD",
        if wide { "  PHASE  FOR PEOPLE" } else { "" }
    );
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

impl Widths {
    fn of(lines: &[DrawnLine<'_>], screen: Screen, wide: bool) -> Self {
        let mut widths = Self { name: 4, cluster: 7, resource: 8, amount: 9, bar: 0 };
        for line in lines {
            let name = line.node.map_or(0, |node| label(node).chars().count());
            widths.name = widths.name.max(line.lead.chars().count() + name);
            let Some(entry) = &line.entry else { continue };
            widths.cluster = widths.cluster.max(entry.cluster.chars().count());
            widths.resource = widths.resource.max(entry.resource.chars().count());
            if wide {
                let amounts =
                    [entry.share.used.0, entry.share.allocated.0, entry.share.hard.unwrap_or(Quantity::ZERO)];
                let longest = amounts.map(|one| one.to_string().len()).into_iter().max().unwrap_or_default();
                widths.amount = widths.amount.max(longest);
            }
        }
        let Self { name, cluster, resource, amount, .. } = widths;
        let others =
            name + cluster + resource + 3 * amount + PERCENT + 6 * GAP.len() + if wide { PEOPLE } else { 0 };
        widths.bar = screen.width.saturating_sub(others).clamp(BAR_MIN, BAR_MAX);
        widths
    }
}

impl DrawnLine<'_> {
    fn write(&self, text: &mut String, screen: Screen, widths: Widths, wide: bool) {
        let Widths { name, cluster, resource, amount, bar } = widths;
        let (label, tone) = self.node.map_or((String::new(), Tone::Plain), |node| {
            (label(node), if node.kind == NodeKind::Namespace { Tone::Plain } else { Tone::Head })
        });
        let pad = name.saturating_sub(self.lead.chars().count() + label.chars().count());
        text.push_str(&screen.paint(Tone::Faint, &self.lead));
        text.push_str(&screen.paint(tone, &label));
        text.extend(std::iter::repeat_n(' ', pad));
        if let Some(entry) = &self.entry {
            let share = entry.share;
            let percent = share.percent(self.kind);
            let shown = |one: Quantity| if wide { one.to_string() } else { amount::brief(one) };
            let hard = share.hard.map_or_else(|| "-".to_owned(), shown);
            let _infallible =
                write!(text, "{GAP}{:cluster$}{GAP}{:resource$}{GAP}", entry.cluster, entry.resource);
            match share.hard {
                Some(hard) => {
                    let filled = Bar { hard, allocated: share.taken(self.kind), used: share.used.0 };
                    text.push_str(&filled.shown(screen, bar));
                }
                None => text.extend(std::iter::repeat_n(' ', bar)),
            }
            let share_text = percent
                .map_or_else(String::new, |percent| format!("{percent}{:2}", amount::mark(Some(percent))));
            text.push_str(&screen.paint(amount::tone(percent), &format!("{share_text:>PERCENT$}")));
            let (used, allocated) = (shown(share.used.0), shown(share.allocated.0));
            let _infallible =
                write!(text, "{GAP}{used:>amount$}{GAP}{allocated:>amount$}{GAP}{hard:>amount$}");
        }
        if let Some(node) = self.node.filter(|_| wide) {
            let _infallible = write!(text, "{GAP}{}{GAP}{}", node.phase, harmless(&node.display_name));
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
        let drawn = lines(&forest, &forest.roots, &ALL, Screen::plain(true), false);
        let expected = "\
NAME                 CLUSTER  RESOURCE                            %       USED  ALLOCATED       HARD
tenant acme          east     requests.cpu  █▒▒▒▒▒▒▒·········  50            2         10         20
└─ shop              east     pods          ▒▒▒··············  20            0         20        100
   │                 east     requests.cpu  ███▒▒▒▒▒▒▒▒▒▒····  80!           2          8         10
   └─ web            east     pods          ▒▒▒··············  20            0         20        100
      │              east     requests.cpu  ████▒▒▒▒▒▒▒▒▒····  81!           2      6500m          8
      ├─ east/back   east     requests.cpu  ████·············  25         500m          3          2
      └─ east/front  east     requests.cpu  ████████████·····  75        1500m          3          2
lone                 east     pods          ▒▒▒··············  20            0         20        100
                     east     requests.cpu  ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ 100!!          0          1          1
";
        assert_eq!(drawn, expected);
        let plain = lines(&forest, &forest.roots, &ALL, Screen::plain(false), true);
        assert!(plain.is_ascii(), "{plain}");
        assert!(plain.contains("`- east/front") && plain.contains("1500m"), "{plain}");
    }
}
