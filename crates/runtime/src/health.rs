use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A check, and the answer that was last logged.
struct NamedCheck {
    name: &'static str,
    check: Check,
    told: Mutex<Option<Result<(), String>>>,
}

impl NamedCheck {
    /// Runs the check. An answer that differs from the last one is logged.
    fn ask(&self) -> Result<(), String> {
        let answer = (self.check)();
        let before = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.replace(answer.clone())
        };
        let name = self.name;
        match (&before, &answer) {
            (Some(before), now) if before == now => {}
            (None, Ok(())) => {}
            // Nothing is wrong with a program that has not begun to work yet.
            (None, Err(reason)) => tracing::info!(check = name, reason, "health check does not pass yet"),
            (Some(_), Err(reason)) => tracing::warn!(check = name, reason, "health check failed"),
            (Some(_), Ok(())) => tracing::info!(check = name, "health check passes"),
        }
        answer
    }
}

/// Health checks by name, printed as kube-apiserver prints `/readyz`. Why one fails is in the log.
#[derive(Clone, Default)]
pub struct Health(Arc<RwLock<BTreeMap<&'static str, Arc<NamedCheck>>>>);

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(checks.keys()).finish()
    }
}

/// The answer of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// Whether every check that was asked passed.
    pub ok: bool,
    /// Body of the answer.
    pub text: String,
}

impl Health {
    /// No checks: always healthy.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a check. It must answer at once: it may look at a flag, but not ask anybody.
    pub fn add(&self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let check = NamedCheck { name, check: Box::new(check), told: Mutex::default() };
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(check));
    }

    /// Runs all checks but the excluded ones. `endpoint` is the last line's name, such as `readyz`.
    pub fn report(&self, endpoint: &str, verbose: bool, exclude: &[String]) -> HealthReport {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        let mut ok = true;
        for (name, check) in &checks {
            let line = if exclude.iter().any(|e| e == name) {
                format!("[+]{name} excluded: ok\n")
            } else {
                match check.ask() {
                    Ok(()) => format!("[+]{name} ok\n"),
                    Err(_told) => {
                        ok = false;
                        format!("[-]{name} failed: reason withheld\n")
                    }
                }
            };
            text.push_str(&line);
        }
        let unknown: Vec<String> =
            exclude.iter().filter(|e| !checks.contains_key(e.as_str())).map(|e| format!("{e:?}")).collect();
        if !unknown.is_empty() {
            let list = unknown.join(", ");
            let _written =
                writeln!(text, "warn: some health checks cannot be excluded: no matches for {list}");
        }
        let verdict = if ok { "passed" } else { "failed" };
        let _written = writeln!(text, "{endpoint} check {verdict}");
        if ok && !verbose {
            "ok".clone_into(&mut text);
        }
        HealthReport { ok, text }
    }

    /// Every check, and whether it passes.
    pub(crate) fn each(&self) -> Vec<(&'static str, bool)> {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        checks.iter().map(|(name, check)| (*name, check.ask().is_ok())).collect()
    }

    /// One check alone; `None` if there is none of that name.
    pub fn one(&self, name: &str) -> Option<Result<(), String>> {
        let check = self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()?;
        Some(check.ask())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_check_fails_the_report_unless_it_is_excluded() {
        let health = Health::new();
        health.add("ping", || Ok(()));
        health.add("postgres", || Err("down".to_owned()));
        let report = health.report("readyz", false, &[]);
        assert!(!report.ok);
        assert_eq!(report.text, "[+]ping ok\n[-]postgres failed: reason withheld\nreadyz check failed\n");
        assert_eq!(
            health.report("readyz", false, &["postgres".to_owned()]),
            HealthReport { ok: true, text: "ok".into() }
        );
    }
}
