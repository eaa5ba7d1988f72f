//! Objects on their way into the plan. Pure.

use super::candidate::Candidate;
use super::finding::{ImportFinding, Rule};
use super::record::Named;
use business_types::names::PROJECTS;
use std::collections::BTreeMap;

/// All objects that may come, and what was found.
#[derive(Debug, Default)]
pub struct Draft {
    /// The objects.
    pub candidates: Vec<Candidate>,
    /// What was found of these and of others.
    pub findings: Vec<ImportFinding>,
}

impl Draft {
    /// Says something of an object.
    pub fn find(&mut self, rule: Rule, named: &Named, why: impl Into<String>) {
        self.findings.push(ImportFinding::new(rule, named, why));
    }

    /// Leaves objects out of which something is wrong.
    pub fn leave_out(&mut self, rule: Rule, mut wrong: impl FnMut(&Candidate) -> Option<String>) {
        let findings = &mut self.findings;
        self.candidates.retain(|candidate| match wrong(candidate) {
            Some(why) => {
                findings.push(ImportFinding::new(rule, &candidate.named, why));
                false
            }
            None => true,
        });
    }

    /// Places of the projects among the candidates, by name.
    pub fn projects(&self) -> BTreeMap<String, usize> {
        let projects = self.candidates.iter().enumerate().filter(|(_, candidate)| candidate.is(PROJECTS));
        projects.map(|(at, candidate)| (candidate.named.name.clone(), at)).collect()
    }

    /// How many projects stand above each project. Circles must be cut before.
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
