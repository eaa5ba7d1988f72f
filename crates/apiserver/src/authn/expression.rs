//! CEL expressions over the claims of a token, as in Kubernetes' AuthenticationConfiguration. An expression is accepted
//! only if it has the same results here and in Kubernetes. All others are refused when the file is read.

use cel::common::ast::IdedExpr;
use cel::{Context, Env, Value, extensions};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// Types of values, as far as they are known without a token.
mod cel_type;
/// The type check of an expression.
mod check;
/// Signatures of the methods of texts and lists.
mod signatures;
/// Regular expressions.
mod pattern;
/// Escapes in the names of claims that are no identifiers.
mod escape;
/// Selections that may be absent.
mod optional;
/// Whether an expression selects a certain claim.
mod field_selection;

pub(crate) use cel_type::TextPrefix;

/// The claim with an e-mail address, and the one that says whether it is verified.
pub(crate) const EMAIL_CLAIMS: [&str; 2] = ["email", "email_verified"];
/// The most bytes of an expression.
const TEXT_LIMIT: usize = 4096;
/// The deepest nesting that the parser accepts.
const PARSE_DEPTH_MAX: u16 = 48;
/// The stack of a thread for expressions. For each level, the parser takes up to 64 KiB and evaluation up to 100 KiB.
const STACK_BYTES: usize = 32 << 20;
/// The most values that all comprehensions of an expression may iterate over.
const COST_LIMIT: u64 = 250_000;
/// How many tokens are evaluated concurrently.
const CONCURRENT_EVALUATIONS_MAX: usize = 16;
/// How many of them may be of one issuer, which may make any number of tokens.
pub(crate) const ISSUER_EVALUATIONS_MAX: usize = CONCURRENT_EVALUATIONS_MAX / 2;
/// How long the expressions of one issuer may take for one token, including the wait for a permit.
const DEADLINE: Duration = Duration::from_secs(2);

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    let extended = env.add_extension(extensions::strings).and_then(|()| optional::register(&mut env));
    if let Err(error) = extended {
        tracing::error!(%error, "functions of expressions");
    }
    Arc::new(env)
});
static EVALUATION_PERMITS: Semaphore = Semaphore::const_new(CONCURRENT_EVALUATIONS_MAX);

/// The variable that an expression may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootVariable {
    /// `claims`: the claims of the token.
    Claims,
    /// `user`: the user that the claims were mapped to.
    User,
}

impl RootVariable {
    fn name(self) -> &'static str {
        match self {
            Self::Claims => "claims",
            Self::User => "user",
        }
    }
}

/// The type that the result of an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedType {
    /// A boolean.
    Bool,
    /// Any type; the value is checked when there is one.
    Any,
}

/// A checked expression.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    text: String,
    root: RootVariable,
    tree: IdedExpr,
    /// Those of [`EMAIL_CLAIMS`] that it selects.
    email_claims: Vec<&'static str>,
    /// The prefix of all texts in its result.
    prefix: TextPrefix,
    cost: check::Cost,
}

impl Expression {
    /// Parses and checks an expression. Must run in [`with_deep_stack`].
    pub(crate) fn compile(text: &str, root: RootVariable, expected: ExpectedType) -> Result<Self, String> {
        if text.len() > TEXT_LIMIT {
            return Err(format!("may not be more than {TEXT_LIMIT} bytes"));
        }
        let parser = ENV.parser().max_recursion_depth(PARSE_DEPTH_MAX);
        let mut tree = parser.parse(text).map_err(|error| format!("compilation failed: {error}"))?;
        let email_claims = |claim: &&str| field_selection::selects_field(&tree, root.name(), claim);
        let email_claims = EMAIL_CLAIMS.into_iter().filter(email_claims).collect();
        let checked =
            check::check(&mut tree, root).map_err(|error| format!("compilation failed: {error}"))?;
        if expected == ExpectedType::Bool && !checked.is_bool {
            return Err("must evaluate to bool".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            root,
            tree,
            email_claims,
            prefix: checked.prefix,
            cost: checked.cost,
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn prefix(&self) -> &TextPrefix {
        &self.prefix
    }

    /// Whether it selects this one of [`EMAIL_CLAIMS`], as `claims.NAME`.
    pub(crate) fn selects_claim(&self, claim: &str) -> bool {
        self.email_claims.contains(&claim)
    }

    /// Evaluates the expression. Must run in [`with_deep_stack`].
    pub(crate) fn evaluate(&self, activation: &Activation) -> Result<Value, String> {
        let failed = |why: String| format!("expression '{}' resulted in error: {why}", self.text);
        if self.cost.of(activation.size) > COST_LIMIT {
            return Err(failed("the token has too many values for it".to_owned()));
        }
        let mut context = Context::with_env(Arc::clone(&ENV));
        context.add_variable_from_value(self.root.name(), activation.value.clone());
        Value::resolve(&self.tree, &context).map_err(|error| failed(error.to_string()))
    }
}

/// The value of the variable for an evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Activation {
    value: Value,
    size: check::Size,
}

impl Activation {
    /// The claims of a token. All numbers are floats, as when Go reads JSON.
    pub(crate) fn claims(claims: &Map<String, Json>) -> Self {
        let mut size = check::Size::default();
        let value = map(claims, &mut size);
        Self { value, size }
    }

    /// The user that the claims of a token were mapped to.
    pub(crate) fn user(user: &Json) -> Self {
        let mut size = check::Size::default();
        let value = value(user, &mut size);
        Self { value, size }
    }
}

fn map(from: &Map<String, Json>, size: &mut check::Size) -> Value {
    let pairs: HashMap<String, Value> =
        from.iter().map(|(key, one)| (key.clone(), value(one, size))).collect();
    Value::from(pairs)
}

fn value(from: &Json, size: &mut check::Size) -> Value {
    size.values += 1;
    match from {
        Json::Null => Value::Null,
        Json::Bool(bool) => Value::Bool(*bool),
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => {
            size.bytes += u64::try_from(text.len()).unwrap_or(u64::MAX);
            Value::from(text.as_str())
        }
        Json::Array(list) => Value::List(Arc::new(list.iter().map(|one| value(one, size)).collect())),
        Json::Object(object) => map(object, size),
    }
}

/// The texts in a value, as Kubernetes reads groups and extra values: a text or a list of texts. Empty texts are left
/// out.
pub(crate) fn texts(value: &Value) -> Result<Vec<String>, &'static str> {
    const WRONG: &str = "expression must return a string or a list of strings";
    let texts = match value {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.to_string()],
        Value::List(list) => {
            let text = |one: &Value| match one {
                Value::String(text) => Ok(text.to_string()),
                _ => Err(WRONG),
            };
            list.iter().map(text).collect::<Result<_, _>>()?
        }
        _ => return Err(WRONG),
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// Runs work in a thread whose stack is deep enough for every expression, and blocks until it has finished.
pub(crate) fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| format!("no thread for expressions: {error}"))?;
        thread.join().map_err(|_panic| "an expression could not be read".to_owned())
    })
}

/// Why there is no result of work on a deep stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotEvaluated {
    /// It was not finished before the deadline, or got no thread: too much is evaluated at once.
    Late,
    /// It has panicked.
    Broken,
}

/// Like [`with_deep_stack`], without blocking a thread of the runtime. After the deadline this returns an error; the
/// work keeps its permits until it has finished. Only those who have a permit of their issuer wait for a common one.
pub(crate) async fn with_deep_stack_async<T: Send + 'static>(
    issuer_permits: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotEvaluated> {
    let started = async {
        let own = Arc::clone(issuer_permits).acquire_owned().await.map_err(|_closed| NotEvaluated::Late)?;
        let common = EVALUATION_PERMITS.acquire().await.map_err(|_closed| NotEvaluated::Late)?;
        let (sender, receiver) = oneshot::channel();
        let work = move || {
            // The receiver may be gone, after the deadline.
            drop(sender.send(work()));
            drop(common);
            drop(own);
        };
        let thread =
            std::thread::Builder::new().name("claims".to_owned()).stack_size(STACK_BYTES).spawn(work);
        thread.map_err(|error| {
            tracing::warn!(%error, "no thread for expressions");
            NotEvaluated::Late
        })?;
        receiver.await.map_err(|_gone| NotEvaluated::Broken)
    };
    timeout(DEADLINE, started).await.map_err(|_elapsed| NotEvaluated::Late)?
}

#[cfg(test)]
mod tests;
