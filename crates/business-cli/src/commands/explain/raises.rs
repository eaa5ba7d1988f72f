use crate::api::Api;
use crate::failure::Failure;
use crate::level::Level;
use crate::paths;
use crate::refusal::shortage::Shortage;
use business_types::names;
use business_types::project::LEVELS_MAX;
use meta::quantity::{Quantity, ResourceList};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// The limits of one level that have to be raised.
#[derive(Clone, Debug)]
pub(super) struct Raise {
    pub(super) level: Level,
    pub(super) limits: Vec<RaisedLimit>,
    pub(super) answer: RaiseAnswer,
}

/// A limit that would be raised.
#[derive(Clone, Debug)]
pub(super) struct RaisedLimit {
    pub(super) domain: String,
    pub(super) resource: String,
    pub(super) from: Quantity,
    /// The smallest limit with which the object fits.
    pub(super) to: Quantity,
}

/// The server's answer to raising this level alone.
#[derive(Clone, Debug)]
pub(super) enum RaiseAnswer {
    /// The caller may do it now.
    Accepted,
    /// The levels above have to be raised first.
    AfterThoseAbove,
    /// Not by this caller, or not at all.
    Refused(String),
}

impl Raise {
    /// The smallest change with which all of these amounts fit, by level.
    fn of(shortages: &[Shortage]) -> Vec<Self> {
        let mut raises: Vec<Self> = Vec::new();
        for one in shortages.iter().filter(|one| !one.is_below) {
            let limit = RaisedLimit {
                domain: one.domain.clone(),
                resource: one.resource.clone(),
                from: one.hard,
                to: one.hard_needed(),
            };
            match raises.iter_mut().find(|raise| raise.level == one.level) {
                Some(raise) => raise.limits.push(limit),
                None => raises.push(Self {
                    level: one.level.clone(),
                    limits: vec![limit],
                    answer: RaiseAnswer::AfterThoseAbove,
                }),
            }
        }
        raises
    }

    /// The path of the level's object.
    fn path(&self) -> String {
        match &self.level {
            Level::Project(name) => paths::object(names::PROJECTS, name),
            Level::Tenant(name) => paths::object(names::TENANTS, name),
            Level::Cluster(name) => paths::object(names::MEMBER_CLUSTERS, name),
        }
    }

    /// A merge patch that raises it.
    pub(super) fn patch(&self) -> Value {
        if let Level::Cluster(_) = self.level {
            let hard: ResourceList =
                self.limits.iter().map(|limit| (limit.resource.clone(), limit.to)).collect();
            return json!({"spec": {"hard": hard}});
        }
        let mut clusters: BTreeMap<&str, BTreeMap<&str, ResourceList>> = BTreeMap::new();
        for limit in &self.limits {
            let hard = clusters.entry(&limit.domain).or_default().entry("hard").or_default();
            hard.insert(limit.resource.clone(), limit.to);
        }
        json!({"spec": {"clusters": clusters}})
    }

    /// The command that raises it.
    pub(super) fn command(&self) -> String {
        let (plural, name) = match &self.level {
            Level::Project(name) => ("project", name),
            Level::Tenant(name) => ("tenant", name),
            Level::Cluster(name) => ("membercluster", name),
        };
        format!("kubectl patch {plural} {name} --type=merge -p '{}'", self.patch())
    }

    pub(super) fn to_json(&self) -> Value {
        let limits: Vec<Value> = self
            .limits
            .iter()
            .map(|limit| {
                let RaisedLimit { domain, resource, from, to } = limit;
                json!({"cluster": domain, "resource": resource, "from": from, "to": to})
            })
            .collect();
        let (answer, why) = match &self.answer {
            RaiseAnswer::Accepted => ("Accepted", None),
            RaiseAnswer::AfterThoseAbove => ("AfterThoseAbove", None),
            RaiseAnswer::Refused(why) => ("Refused", Some(why)),
        };
        json!({"level": self.level.to_json(), "limits": limits, "answer": answer, "why": why, "patch": self.patch()})
    }
}

/// What has to be raised so that something fits, the lowest level first. Each level is tried by a dry run: if the
/// server accepts, no level above has to change.
pub(super) async fn needed(api: &Api, shortages: &[Shortage]) -> Result<Vec<Raise>, Failure> {
    let api = &api.without_warnings();
    let (mut waiting, mut raises) = (VecDeque::from(Raise::of(shortages)), Vec::new());
    while let Some(mut raise) = waiting.pop_front() {
        // No object is created with more scopes above it.
        if raises.len() >= LEVELS_MAX {
            return Err(Failure::Other("the levels above do not end".to_owned()));
        }
        match api.merge_patch(&paths::dry_run(&raise.path()), &raise.patch()).await {
            Ok(_) => raise.answer = RaiseAnswer::Accepted,
            Err(Failure::Refused(status)) => {
                let above = Raise::of(&Shortage::all_of(&status));
                if above.is_empty() {
                    raise.answer = RaiseAnswer::Refused(status.message);
                }
                waiting.extend(above);
            }
            Err(failure) => return Err(failure),
        }
        raises.push(raise);
    }
    Ok(raises)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortage(level: Level, domain: &str, resource: &str, requested: &str) -> Shortage {
        let amount = |text: &str| text.parse().unwrap();
        Shortage {
            level,
            domain: domain.into(),
            resource: resource.into(),
            requested: amount(requested),
            hard: amount("10"),
            allocated: amount("8"),
            remaining: amount("2"),
            fits: amount("2"),
            held: None,
            is_below: false,
        }
    }

    #[test]
    fn a_level_is_raised_once_by_what_is_missing() {
        let web = || Level::Project("web".into());
        let raises = Raise::of(&[
            shortage(web(), "east", "pods", "5"),
            shortage(web(), "west", "requests.cpu", "2500m"),
        ]);
        assert_eq!(raises.len(), 1);
        assert_eq!(
            raises[0].patch(),
            json!({"spec": {"clusters": {"east": {"hard": {"pods": "13"}}, "west": {"hard": {"requests.cpu": "10500m"}}}}})
        );
        let raises = Raise::of(&[shortage(Level::Cluster("east".into()), "east", "pods", "3")]);
        assert_eq!(raises[0].patch(), json!({"spec": {"hard": {"pods": "11"}}}));
        assert!(raises[0].command().starts_with("kubectl patch membercluster east"));
    }
}
