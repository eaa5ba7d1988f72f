//! The draft of a plan. Pure.

use super::candidate::Candidate;
use super::finding::{ImportFinding, Rule};
use super::record::ObjectRef;
use business_types::names::PROJECTS;
use std::collections::BTreeMap;

/// All candidates, and the findings.
#[derive(Debug, Default)]
pub struct Draft {
    /// The objects that may be imported.
    pub candidates: Vec<Candidate>,
    /// Findings about these and about other objects.
    pub findings: Vec<ImportFinding>,
}

impl Draft {
    /// Adds a finding about an object.
    pub fn add_finding(&mut self, rule: Rule, object_ref: &ObjectRef, why: impl Into<String>) {
        self.findings.push(ImportFinding::new(rule, object_ref, why));
    }

    /// Excludes the candidates for which `wrong` returns a reason.
    pub fn exclude(&mut self, rule: Rule, mut wrong: impl FnMut(&Candidate) -> Option<String>) {
        let findings = &mut self.findings;
        self.candidates.retain(|candidate| match wrong(candidate) {
            Some(why) => {
                findings.push(ImportFinding::new(rule, &candidate.object_ref, why));
                false
            }
            None => true,
        });
    }

    /// The indices of the projects among the candidates, by name.
    pub fn projects(&self) -> BTreeMap<String, usize> {
        let projects = self.candidates.iter().enumerate().filter(|(_, candidate)| candidate.is(PROJECTS));
        projects.map(|(at, candidate)| (candidate.object_ref.name.clone(), at)).collect()
    }

    /// How many projects are above each project. Cycles must be cut before.
    pub fn depths(&self) -> BTreeMap<String, usize> {
        let projects = self.projects();
        let above = |name: &str| {
            let at = projects.get(name)?;
            self.candidates.get(*at).map(Candidate::scope).filter(|parent| !parent.is_empty())
        };
        let depth = |name: &String| {
            std::iter::successors(above(name), |parent| above(parent)).take(projects.len()).count()
        };
        projects.keys().map(|name| (name.clone(), depth(name))).collect()
    }
}
