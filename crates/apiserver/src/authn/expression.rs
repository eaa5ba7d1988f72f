//! CEL over the claims of a token, as in Kubernetes' AuthenticationConfiguration. An expression is accepted only if
//! it gives the same answers here and in Kubernetes. All others are refused when the file is read.

use cel::common::ast::IdedExpr;
use cel::{Context, Env, Value, extensions};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// What is known of a value before there is a token.
mod kind;
/// What may be done with values.
mod check;
/// Methods of texts and lists.
mod signatures;
/// Regular expressions.
mod pattern;
/// Names of claims that are not identifiers.
mod escape;
/// Values that may be absent.
mod presence;
/// Which claims an expression names.
mod uses;

pub(crate) use kind::Start;

/// The claims of an e-mail address, and of whether it is verified.
pub(crate) const ADDRESS_CLAIMS: [&str; 2] = ["email", "email_verified"];
/// Bytes of an expression.
const TEXT_LIMIT: usize = 4096;
/// How deep expressions may be nested in each other, in the parser.
const PARSE_DEPTH: u16 = 48;
/// The parser takes up to 64 KiB of stack for each level, evaluation up to 100 KiB.
const STACK: usize = 32 << 20;
/// How many values are looked at by all comprehensions of an expression.
const COST_LIMIT: u64 = 250_000;
/// How many tokens are evaluated at once.
const ROOM: usize = 16;
/// How long the expressions of one issuer may take for one token, waiting included.
const DEADLINE: Duration = Duration::from_secs(2);

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    let extended = env.add_extension(extensions::strings).and_then(|()| presence::extension(&mut env));
    if let Err(error) = extended {
        tracing::error!(%error, "functions of expressions");
    }
    Arc::new(env)
});
static PLACES: Semaphore = Semaphore::const_new(ROOM);

/// The variable that an expression is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// `claims`: what the token says.
    Claims,
    /// `user`: the user made of the token.
    User,
}

impl Subject {
    fn variable(self) -> &'static str {
        match self {
            Self::Claims => "claims",
            Self::User => "user",
        }
    }
}

/// The value that an expression must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Yes or no.
    Bool,
    /// Any type: it is checked when there is a value.
    Anything,
}

/// An expression that can be evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    text: String,
    subject: Subject,
    tree: IdedExpr,
    /// Those of [`ADDRESS_CLAIMS`] that it names.
    named: Vec<&'static str>,
    /// The beginning of all texts that it gives.
    starts: Start,
    cost: check::Cost,
}

impl Expression {
    /// Parses and checks; on a [`deep`] stack.
    pub(crate) fn compile(text: &str, subject: Subject, wanted: Wanted) -> Result<Self, String> {
        if text.len() > TEXT_LIMIT {
            return Err(format!("may not be more than {TEXT_LIMIT} bytes"));
        }
        let parser = ENV.parser().max_recursion_depth(PARSE_DEPTH);
        let mut tree = parser.parse(text).map_err(|error| format!("compilation failed: {error}"))?;
        let named = |claim: &&str| uses::selects(&tree, subject.variable(), claim);
        let named = ADDRESS_CLAIMS.into_iter().filter(named).collect();
        let seen =
            check::check(&mut tree, subject).map_err(|error| format!("compilation failed: {error}"))?;
        if wanted == Wanted::Bool && !seen.is_bool {
            return Err("must evaluate to bool".to_owned());
        }
        Ok(Self { text: text.to_owned(), subject, tree, named, starts: seen.starts, cost: seen.cost })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn starts(&self) -> &Start {
        &self.starts
    }

    /// Whether it names one of [`ADDRESS_CLAIMS`], as `claims.NAME`.
    pub(crate) fn names_claim(&self, claim: &str) -> bool {
        self.named.contains(&claim)
    }

    /// Its value; on a [`deep`] stack.
    pub(crate) fn evaluate(&self, of: &Evaluated) -> Result<Value, String> {
        let failed = |why: String| format!("expression '{}' resulted in error: {why}", self.text);
        if self.cost.of(of.size) > COST_LIMIT {
            return Err(failed("the token has too many values for it".to_owned()));
        }
        let mut context = Context::with_env(Arc::clone(&ENV));
        context.add_variable_from_value(self.subject.variable(), of.value.clone());
        Value::resolve(&self.tree, &context).map_err(|error| failed(error.to_string()))
    }
}

/// The variables over which expressions are evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Evaluated {
    value: Value,
    size: check::Size,
}

impl Evaluated {
    /// Numbers are floating, as Go reads JSON.
    pub(crate) fn claims(claims: &Map<String, Json>) -> Self {
        let mut size = check::Size::default();
        let value = map(claims, &mut size);
        Self { value, size }
    }

    /// The user who was made of a token.
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

/// Texts out of a value, as Kubernetes takes groups and extra values: one text or a list, without the empty ones.
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

/// Runs work on a stack that is deep enough for every expression, and waits for it.
pub(crate) fn deep<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| format!("no thread for expressions: {error}"))?;
        thread.join().map_err(|_panic| "an expression could not be read".to_owned())
    })
}

/// The same without blocking a thread of the runtime. Work that takes too long is not waited for; it keeps its place
/// until it ends.
pub(crate) async fn deep_apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let late = |_elapsed| "its expressions took too long".to_owned();
    let started = async {
        let place = PLACES.acquire().await.map_err(|error| error.to_string())?;
        let (tell, told) = oneshot::channel();
        let work = move || {
            // Perhaps nobody waits any more.
            drop(tell.send(work()));
            drop(place);
        };
        let thread = std::thread::Builder::new().name("claims".to_owned()).stack_size(STACK).spawn(work);
        thread.map_err(|error| format!("no thread for expressions: {error}"))?;
        told.await.map_err(|_gone| "an expression could not be evaluated".to_owned())
    };
    timeout(DEADLINE, started).await.map_err(late)?
}

#[cfg(test)]
mod tests;
