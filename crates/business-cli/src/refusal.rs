//! A refusal as a person reads it: what the server said, the levels as a picture, and what to do next.

use crate::amount::{self, Bar};
use crate::failure::Failure;
use crate::screen::{Cell, Screen, Table, Tone, harmless, left, right};
use meta::quantity::Quantity;
use meta::status::{Status, StatusCause};

const QUOTA_EXCEEDED: &str = "QuotaExceeded";
const BELOW_ALLOCATED: &str = "BelowAllocated";
const BAR: usize = 16;
/// Who has shown no credentials.
const ANONYMOUS: &str = "system:anonymous";

/// Somebody who has budget to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Project(String),
    Tenant(String),
    Cluster(String),
}

impl Level {
    /// `project web`
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Project(name) => format!("project {name}"),
            Self::Tenant(name) => format!("tenant {name}"),
            Self::Cluster(name) => format!("cluster {name}"),
        }
    }
}

/// An amount that a level does not have, as a cause of a refusal tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) level: Level,
    /// The cluster, or the registry.
    pub(crate) domain: String,
    pub(crate) resource: String,
    pub(crate) requested: Quantity,
    pub(crate) hard: Quantity,
    pub(crate) allocated: Quantity,
    pub(crate) remaining: Quantity,
    /// The amount that would have been accepted.
    pub(crate) fits: Quantity,
    /// Of what is allocated, what no object stands for.
    pub(crate) held: Option<Quantity>,
    /// A limit that lies below what is given away; else an amount that is too large.
    pub(crate) is_below: bool,
}

impl Shortage {
    /// Of a cause about an amount.
    pub(crate) fn of(cause: &StatusCause) -> Option<Self> {
        let is_below = cause.reason == BELOW_ALLOCATED;
        if !is_below && cause.reason != QUOTA_EXCEEDED {
            return None;
        }
        let amount = |key: &str| value(&cause.message, key)?.parse().ok();
        let domain = value(&cause.message, "cluster").or_else(|| value(&cause.message, "domain"))?;
        Some(Self {
            level: level(&cause.message, domain)?,
            domain: domain.to_owned(),
            resource: value(&cause.message, "resource")?.to_owned(),
            requested: amount("requested")?,
            hard: amount("hard")?,
            allocated: amount("allocated")?,
            remaining: amount("remaining")?,
            fits: amount("fits")?,
            held: amount("held"),
            is_below,
        })
    }

    /// The smallest hard of the level with which the amount would fit.
    pub(crate) fn hard_needed(&self) -> Quantity {
        // A level may have given away more than it has: what is above its hard is missing, too.
        amount::plus(self.hard.max(self.allocated), amount::less(self.requested, self.fits))
    }
}

fn level(message: &str, domain: &str) -> Option<Level> {
    if let Some(name) = value(message, "project") {
        return Some(Level::Project(name.to_owned()));
    }
    if let Some(name) = value(message, "tenant") {
        return Some(Level::Tenant(name.to_owned()));
    }
    (value(message, "scope") == Some("cluster")).then(|| Level::Cluster(domain.to_owned()))
}

/// `web` of `project=web cluster=c1`.
fn value<'a>(message: &'a str, key: &str) -> Option<&'a str> {
    message.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

/// All amounts that are missing.
pub(crate) fn shortages(status: &Status) -> Vec<Shortage> {
    causes(status).filter_map(Shortage::of).collect()
}

fn causes(status: &Status) -> impl Iterator<Item = &StatusCause> {
    status.details.iter().flat_map(|details| &details.causes)
}

/// The levels that refuse, a line each.
pub(crate) fn picture(shortages: &[Shortage], screen: Screen) -> String {
    let mut table = Table::new(&[
        left("LEVEL"),
        left("WHERE"),
        left("RESOURCE"),
        left(""),
        right("HARD"),
        right("ALLOCATED"),
        right("LEFT"),
        right("ASKED"),
        right("FITS"),
    ]);
    for one in shortages {
        let bar = Bar { hard: one.hard, allocated: one.allocated, used: Quantity::ZERO };
        table.row([
            Cell::from(one.level.text()),
            one.domain.as_str().into(),
            one.resource.as_str().into(),
            Cell::from(bar.shown(screen.without_color(), BAR)),
            amount::brief(one.hard).into(),
            amount::brief(one.allocated).into(),
            amount::brief(one.remaining).into(),
            Cell::toned(Tone::Full, amount::brief(one.requested)),
            Cell::toned(Tone::Good, one.fits.to_string()),
        ]);
    }
    if table.is_empty() { String::new() } else { table.shown(screen, "  ") }
}

/// Everything about a failure, for standard error.
pub(crate) fn told(failure: &Failure, screen: Screen) -> String {
    let mut text = format!("{} {}\n", screen.paint(Tone::Full, "error:"), harmless(&failure.to_string()));
    let Failure::Refused(status) = failure else {
        text.extend(next_of(failure).map(|next| format!("  next: {next}\n")));
        return text;
    };
    let shortages = shortages(status);
    if !shortages.is_empty() {
        text.push('\n');
        text.push_str(&picture(&shortages, screen));
        text.push('\n');
    }
    let mut told: Vec<String> = Vec::new();
    for cause in causes(status) {
        if Shortage::of(cause).is_none() && !status.message.contains(&cause.message) {
            let line = [harmless(&cause.field), harmless(&cause.message)].join(": ");
            text.extend(["  ", &line, "\n"]);
        }
        let next = next_step(cause);
        if let Some(next) = next.filter(|next| !told.contains(next)) {
            told.push(next);
        }
    }
    if told.is_empty() {
        let code = if status.message.contains(ANONYMOUS) { 401 } else { status.code };
        told.extend(next_of_code(code).map(str::to_owned));
    }
    text.extend(told.iter().map(|next| format!("  next: {}\n", harmless(next))));
    text
}

fn next_of(failure: &Failure) -> Option<&'static str> {
    Some(match failure {
        Failure::Kubeconfig(_) => "name one with --kubeconfig or $KUBECONFIG, or `kubectl business login`",
        Failure::Unreachable { .. } => "look whether --context and --kubeconfig are those that you mean",
        Failure::NoAnswer { .. } => "it may be busy: try again, or give it longer with --request-timeout",
        Failure::TimedOut { .. } => "it goes on without you; give it longer with --timeout",
        _ => return None,
    })
}

fn next_of_code(code: u16) -> Option<&'static str> {
    Some(match code {
        401 => "log in again: `kubectl business login`",
        403 => "ask somebody who may: `kubectl business access list PROJECT` shows who rules a project",
        404 => "what you do not see does not exist for you: `kubectl business tree` shows what does",
        409 => "somebody else was faster, or it is in the way: look at it, and try again",
        429 | 503 | 504 => "the server is busy or starting: try again in a moment",
        _ => return None,
    })
}

/// What to do about a cause.
fn next_step(cause: &StatusCause) -> Option<String> {
    if let Some(shortage) = Shortage::of(cause) {
        return Some(next_of_shortage(&shortage));
    }
    let project = value(&cause.message, "project").unwrap_or_default();
    let tenant = value(&cause.message, "tenant").unwrap_or_default();
    let cluster = value(&cause.message, "cluster").unwrap_or_default();
    Some(match cause.reason.as_str() {
        "BelowUsed" => format!(
            "ask for {}={} or more, or remove what uses it in the cluster first",
            value(&cause.message, "resource")?,
            value(&cause.message, "fits")?
        ),
        "TooManyChildren" => {
            format!(
                "put it into another project, or delete what nobody needs: `kubectl business tree {project} --namespaces`"
            )
        }
        "ProjectLocked" => {
            format!(
                "an operator has locked it: `kubectl business describe project {project}` says why; he ends it with `unlock`"
            )
        }
        "NamespaceTerminating" => {
            "the project is being deleted: use another one, or wait until it is gone".to_owned()
        }
        "ClaimTaken" => "choose another name for it in the cluster; whose it is, is not told".to_owned(),
        "ProjectInUse" => {
            format!("delete what lies in it first: `kubectl business tree {project} --namespaces`")
        }
        "TenantInUse" => format!("delete its projects first: `kubectl business tree --tenant {tenant}`"),
        "ProjectOverdrawn" => {
            format!("lower what its children have first: `kubectl business tree {project} --namespaces`")
        }
        "NoCeiling" => format!(
            "an operator gives tenant {tenant} a ceiling on {cluster}, or make it below a project that has budget there (--parent)"
        ),
        "FieldValueNotFound" => {
            "what you do not see does not exist for you: `kubectl business tree` shows what does".to_owned()
        }
        _ => return None,
    })
}

fn next_of_shortage(shortage: &Shortage) -> String {
    let Shortage { level, domain, resource, fits, hard, is_below, .. } = shortage;
    if *is_below {
        return format!("ask for {resource}={fits} or more on {domain}, or lower what is below it first");
    }
    let needed = shortage.hard_needed();
    let held = shortage.held.map_or_else(String::new, |held| {
        format!("; {held} of it is held without an object: `kubectl business audit`")
    });
    format!(
        "ask for {resource}={fits} at most, or have hard of {} raised from {hard} to {needed} on {domain}{held}; \
         `kubectl business explain` shows which levels that takes",
        level.text()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::gvk::GroupResource;

    fn cause(reason: &str, message: &str) -> StatusCause {
        StatusCause { reason: reason.into(), message: message.into(), field: "spec.hard[pods]".into() }
    }

    fn exceeded(allocated: &str) -> StatusCause {
        let message = format!(
            "project=web cluster=c1 resource=pods requested=90 hard=100 allocated={allocated} remaining=59 fits=59"
        );
        cause(QUOTA_EXCEEDED, &message)
    }

    #[test]
    fn the_levels_of_a_refusal_are_read() {
        let shortage = Shortage::of(&exceeded("41")).unwrap();
        assert_eq!(shortage.level, Level::Project("web".to_owned()));
        assert_eq!((shortage.domain.as_str(), shortage.resource.as_str()), ("c1", "pods"));
        assert_eq!(shortage.hard_needed().to_string(), "131");
        assert_eq!(Shortage::of(&exceeded("120")).unwrap().hard_needed().to_string(), "151");
        let cluster =
            "scope=cluster cluster=c1 resource=pods requested=9 hard=8 allocated=0 remaining=8 fits=8";
        let shortage = Shortage::of(&cause(QUOTA_EXCEEDED, cluster)).unwrap();
        assert_eq!(shortage.level, Level::Cluster("c1".to_owned()));
        let registry = "tenant=acme domain=registry resource=imagenamespaces requested=2 hard=1 allocated=0 remaining=1 fits=1";
        assert_eq!(Shortage::of(&cause(QUOTA_EXCEEDED, registry)).unwrap().domain, "registry");
        assert_eq!(Shortage::of(&cause(QUOTA_EXCEEDED, "nonsense")), None);
    }

    #[test]
    fn a_refusal_shows_the_level_and_what_to_do() {
        let status = Status::forbidden(&GroupResource::new("g", "namespaces"), "c1-a", "exceeded quota");
        let failure = Failure::Refused(Box::new(status.with_causes(vec![exceeded("41")])));
        let text = told(&failure, Screen::plain(false));
        for part in [
            "error: namespaces.g \"c1-a\" is forbidden: exceeded quota",
            "project web  c1     pods      ======..........   100         41    59     90    59",
            "next: ask for pods=59 at most, or have hard of project web raised from 100 to 131 on c1",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn every_reason_of_the_server_has_a_next_step() {
        for reason in [
            "TooManyChildren",
            "ProjectLocked",
            "NamespaceTerminating",
            "ClaimTaken",
            "ProjectInUse",
            "TenantInUse",
            "ProjectOverdrawn",
            "NoCeiling",
            "FieldValueNotFound",
        ] {
            assert!(next_step(&cause(reason, "project=p tenant=t cluster=c")).is_some(), "{reason}");
        }
        assert!(
            next_step(&cause("BelowUsed", "cluster=c resource=pods requested=1 used=2 fits=2")).is_some()
        );
    }
}
