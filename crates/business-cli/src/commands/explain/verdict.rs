use super::levels::{self, LevelUsage};
use super::raises::{self, Raise, RaiseAnswer};
use crate::amount;
use crate::api::Api;
use crate::desired::{AmountsByCluster, DesiredKind, DesiredObject};
use crate::failure::Failure;
use crate::level::{Level, LevelRow, LevelTable};
use crate::refusal::advice::next_steps_of;
use crate::refusal::shortage::Shortage;
use crate::screen::{Cell, Screen, Tone, left, sanitize};
use business_types::refusal::{BELOW_ALLOCATED, QUOTA_EXCEEDED};
use meta::quantity::Quantity;
use meta::status::Status;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Whether an object fits, and why.
#[derive(Debug)]
pub(super) struct Verdict {
    desired: DesiredObject,
    levels: Vec<LevelUsage>,
    refused: Option<Box<Status>>,
    shortages: Vec<Shortage>,
    raises: Vec<Raise>,
}

impl Verdict {
    /// Tries the object by a dry run. If flags name a missing project, that is a failure; in a file it is a verdict.
    pub(super) async fn of(api: &Api, desired: &DesiredObject, by_flags: bool) -> Result<Self, Failure> {
        let mut desired = desired.clone();
        let refused = match desired.write(api, true).await {
            Ok(made) => {
                let tenant = made.pointer("/spec/tenantID").and_then(Value::as_str);
                desired.tenant = tenant.map_or(desired.tenant, str::to_owned);
                None
            }
            Err(Failure::Refused(status)) if matches!(status.code, 403 | 409 | 422) => Some(status),
            Err(Failure::Refused(status)) if status.code == 404 && !by_flags => Some(status),
            Err(failure) => return Err(failure),
        };
        let shortages = refused.as_deref().map(Shortage::all_of).unwrap_or_default();
        let levels = levels::above(api, &desired).await?;
        let raises = raises::needed(api, &shortages).await?;
        Ok(Self { desired, levels, refused, shortages, raises })
    }

    pub(super) fn fits(&self) -> bool {
        self.refused.is_none()
    }

    fn title(&self) -> String {
        let DesiredObject { kind, name, payer, tenant, .. } = &self.desired;
        let change = if self.desired.exists() { "changed " } else { "new " };
        let place = match (kind, payer.as_str()) {
            (_, "") if self.desired.exists() => String::new(),
            (_, "") if !tenant.is_empty() => format!(", a root of tenant {tenant}"),
            (_, "") if self.fits() => ", a root without a tenant".to_owned(),
            (_, "") => ", a root".to_owned(),
            (DesiredKind::Project, parent) => format!(" below project {parent}"),
            (DesiredKind::Namespace, project) => format!(" in project {project}"),
        };
        format!("{change}{} {name}{place}", kind.word())
    }

    /// For people.
    pub(super) fn render(&self, screen: Screen) -> String {
        let verdict = match &self.refused {
            None => screen.paint(Tone::Good, "fits"),
            Some(_) => screen.paint(Tone::Full, "does not fit"),
        };
        let mut text = format!("{}: {verdict}\n", self.title());
        let levels = self.render_levels(screen);
        if !levels.is_empty() {
            text.extend(["\n", &levels]);
        }
        if let Some(status) = &self.refused {
            let _infallible = write!(text, "\n{}\n", sanitize(&status.message));
            // The raises say more than the advice for a shortage.
            let next = if self.raises.is_empty() { next_steps_of(status) } else { Vec::new() };
            text.extend(next.iter().map(|next| format!("  next: {}\n", sanitize(next))));
        }
        if !self.raises.is_empty() {
            text.push_str("\nThe smallest change that would let it in");
            let fitting = render_fitting(&self.shortages, &self.desired.requested);
            let _infallible = writeln!(text, " (or ask for at most {fitting}):");
        }
        for (number, raise) in self.raises.iter().rev().enumerate() {
            let _infallible = write!(text, "  {}. {}", number + 1, render_raise(raise, screen));
        }
        text
    }

    /// A table of the levels above. The level that pays shows the requested amount, too.
    fn render_levels(&self, screen: Screen) -> String {
        let mut table = LevelTable::new(left(""));
        for share in &self.levels {
            let asks = self.pays(&share.level);
            let of = |all: &AmountsByCluster| {
                all.get(&share.domain).map(|list| amount::get(list, &share.resource))
            };
            let missing = self.shortages.iter().find(|one| {
                one.level == share.level && one.domain == share.domain && one.resource == share.resource
            });
            let row = LevelRow {
                level: &share.level,
                domain: &share.domain,
                resource: &share.resource,
                hard: share.hard,
                allocated: share.allocated,
                held: share.held,
                left: share.left(),
                requested: of(&self.desired.requested).filter(|_| asks),
                current: of(&self.desired.current).unwrap_or(Quantity::ZERO),
                refuses: missing.is_some(),
            };
            let remark = match (missing, asks) {
                (Some(one), _) => Cell::toned(Tone::Full, format!("refuses: {} fits", one.fits)),
                (None, true) if self.fits() => Cell::toned(Tone::Good, "fits"),
                _ => Cell::from(""),
            };
            table.row(&row, screen, remark);
        }
        table.render(screen)
    }

    /// Whether this level pays for the object.
    fn pays(&self, level: &Level) -> bool {
        match level {
            Level::Project(name) => *name == self.desired.payer,
            Level::Tenant(_) => self.desired.payer.is_empty(),
            Level::Cluster(_) => false,
        }
    }

    /// For programs.
    pub(super) fn to_json(&self) -> Value {
        let shortages: Vec<Value> = self.shortages.iter().map(shortage_json).collect();
        let refusal = self
            .refused
            .as_ref()
            .map(|status| json!({"code": status.code, "reason": status.reason, "message": status.message}));
        json!({
            "kind": self.desired.kind.kind(),
            "name": self.desired.name,
            "project": self.desired.payer,
            "fits": self.fits(),
            "levels": self.levels.iter().map(LevelUsage::to_json).collect::<Vec<Value>>(),
            "refusal": refusal,
            "shortages": shortages,
            "raises": self.raises.iter().rev().map(Raise::to_json).collect::<Vec<Value>>(),
        })
    }
}

fn shortage_json(one: &Shortage) -> Value {
    let Shortage { level, domain, resource, requested, hard, allocated, remaining, fits, held, is_below } =
        one;
    json!({
        "level": level.to_json(), "cluster": domain, "resource": resource, "requested": requested, "hard": hard,
        "allocated": allocated, "remaining": remaining, "fits": fits, "held": held,
        "reason": if *is_below { BELOW_ALLOCATED } else { QUOTA_EXCEEDED },
    })
}

/// The largest amounts that all refusing levels accept. Names the clusters if there are several.
fn render_fitting(shortages: &[Shortage], requested: &AmountsByCluster) -> String {
    let mut fitting: BTreeMap<(&str, &str), Quantity> = BTreeMap::new();
    // For a limit below the allocated amount, `fits` is the smallest amount.
    for one in shortages.iter().filter(|one| !one.is_below) {
        let least = fitting.entry((one.domain.as_str(), one.resource.as_str())).or_insert(one.fits);
        *least = one.fits.min(*least);
    }
    let mut clusters: BTreeSet<&str> = requested.keys().map(String::as_str).collect();
    clusters.extend(fitting.keys().map(|(cluster, _)| *cluster));
    let texts = fitting.iter().map(|((cluster, resource), amount)| {
        let place = if clusters.len() > 1 { format!(" on {cluster}") } else { String::new() };
        format!("{resource}={amount}{place}")
    });
    texts.collect::<Vec<String>>().join(", ")
}

fn render_raise(raise: &Raise, screen: Screen) -> String {
    let limits: Vec<String> = raise
        .limits
        .iter()
        .map(|limit| format!("{} on {} from {} to {}", limit.resource, limit.domain, limit.from, limit.to))
        .collect();
    let mut text =
        format!("raise {}: {}\n", screen.paint(Tone::Head, &raise.level.text()), limits.join(", "));
    match &raise.answer {
        RaiseAnswer::Accepted => {
            let _infallible = writeln!(text, "     you may: {}", raise.command());
        }
        RaiseAnswer::AfterThoseAbove => {
            let _infallible = writeln!(text, "     after what stands above: {}", raise.command());
        }
        RaiseAnswer::Refused(why) => {
            let _infallible = writeln!(text, "     not you: {}", sanitize(why));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::quantity::ResourceList;

    fn shortage(level: Level, domain: &str, resource: &str, fits: &str) -> Shortage {
        let amount = |text: &str| text.parse().unwrap();
        Shortage {
            level,
            domain: domain.into(),
            resource: resource.into(),
            requested: amount("30"),
            hard: amount("20"),
            allocated: amount("10"),
            remaining: amount("10"),
            fits: amount(fits),
            held: None,
            is_below: false,
        }
    }

    #[test]
    fn the_amount_that_fits_at_all_levels_is_named_once_per_cluster_and_resource() {
        let web = || Level::Project("web".into());
        let acme = || Level::Tenant("acme".into());
        let mut all = vec![
            shortage(web(), "east", "pods", "8"),
            shortage(acme(), "east", "pods", "5"),
            shortage(acme(), "east", "requests.cpu", "1500m"),
            shortage(web(), "east", "requests.cpu", "2"),
        ];
        let mut requested = AmountsByCluster::from([("east".to_owned(), ResourceList::new())]);
        assert_eq!(render_fitting(&all, &requested), "pods=5, requests.cpu=1500m");
        // A level may only refuse on one of the requested clusters.
        requested.insert("west".to_owned(), ResourceList::new());
        assert_eq!(render_fitting(&all, &requested), "pods=5 on east, requests.cpu=1500m on east");
        all.truncate(2);
        all.push(shortage(web(), "west", "pods", "9"));
        all.push(Shortage { is_below: true, ..shortage(web(), "west", "pods", "1") });
        let none = AmountsByCluster::new();
        assert_eq!(render_fitting(&all, &none), "pods=5 on east, pods=9 on west");
    }
}
