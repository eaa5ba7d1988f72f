use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A check with its last answer.
struct NamedCheck {
    name: &'static str,
    check: Check,
    last_answer: Mutex<Option<Result<(), String>>>,
}

impl NamedCheck {
    /// Runs the check. Logs the answer if it differs from the last one.
    fn run(&self) -> Result<(), String> {
        let answer = (self.check)();
        let before = {
            let mut last = self.last_answer.lock().unwrap_or_else(PoisonError::into_inner);
            last.replace(answer.clone())
        };
        let name = self.name;
        match (&before, &answer) {
            (Some(before), now) if before == now => {}
            (None, Ok(())) => {}
            // A failure as the first answer is no warning: the program is still starting.
            (None, Err(reason)) => tracing::info!(check = name, reason, "health check does not pass yet"),
            (Some(_), Err(reason)) => tracing::warn!(check = name, reason, "health check failed"),
            (Some(_), Ok(())) => tracing::info!(check = name, "health check passes"),
        }
        answer
    }
}

/// Health checks by name. Reports have the form of kube-apiserver's `/readyz`. The reason of a failure is in the log
/// only.
#[derive(Clone, Default)]
pub struct Health(Arc<RwLock<BTreeMap<&'static str, Arc<NamedCheck>>>>);

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(checks.keys()).finish()
    }
}

/// The report of a health endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// Whether all checks passed that were not excluded.
    pub ok: bool,
    /// The response body.
    pub text: String,
}

impl Health {
    /// Without checks, which is healthy.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a check. A check must not block: it may read a flag, but not make a call.
    pub fn add(&self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let check = NamedCheck { name, check: Box::new(check), last_answer: Mutex::default() };
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(check));
    }

    /// Runs all checks but the excluded ones. `endpoint` is the name in the last line of the report, such as `readyz`.
    pub fn report(&self, endpoint: &str, verbose: bool, exclude: &[String]) -> HealthReport {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        let mut ok = true;
        for (name, check) in &checks {
            let line = if exclude.iter().any(|e| e == name) {
                format!("[+]{name} excluded: ok\n")
            } else {
                match check.run() {
                    Ok(()) => format!("[+]{name} ok\n"),
                    Err(_reason) => {
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

    /// Runs all checks; returns whether each passes.
    pub(crate) fn results(&self) -> Vec<(&'static str, bool)> {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        checks.iter().map(|(name, check)| (*name, check.run().is_ok())).collect()
    }

    /// Runs one check; `None` if there is none with this name.
    pub fn one(&self, name: &str) -> Option<Result<(), String>> {
        let check = self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()?;
        Some(check.run())
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
