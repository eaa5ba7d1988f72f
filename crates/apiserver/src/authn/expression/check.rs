use super::kind::{Kind, Start};
use super::signatures::{METHODS, Shape};
use super::{Subject, escape, pattern, presence};
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

/// How deep a tree may be.
const DEPTH: usize = 32;
/// How many comprehensions may lie in each other.
const NESTING: u32 = 2;

/// The size of a token.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) values: u64,
    pub(super) bytes: u64,
}

/// The cost of an evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Comprehensions in each other.
    nesting: u32,
    /// Whether lists are made out of texts.
    splits: bool,
}

impl Cost {
    /// The most values that its comprehensions look at.
    pub(super) fn of(self, size: Size) -> u64 {
        let longest = if self.splits { size.values.saturating_add(size.bytes) } else { size.values };
        if self.nesting == 0 { 0 } else { longest.saturating_pow(self.nesting) }
    }
}

/// What the check finds out about an expression.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) is_bool: bool,
    pub(super) starts: Start,
    pub(super) cost: Cost,
}

/// A value as the check sees it, before there is a token.
#[derive(Clone, Debug)]
struct Seen {
    kind: Kind,
    starts: Start,
}

impl From<Kind> for Seen {
    fn from(kind: Kind) -> Self {
        Self { kind, starts: Start::Unknown }
    }
}

struct Variable {
    name: String,
    seen: Seen,
}

struct Checker {
    variables: Vec<Variable>,
    nesting: u32,
    cost: Cost,
}

/// Checks a tree, and rewrites the names of claims and the regular expressions for the library.
pub(super) fn check(tree: &mut IdedExpr, subject: Subject) -> Result<Checked, String> {
    let kind = match subject {
        Subject::Claims => Kind::Map(Box::new(Kind::Dyn)),
        Subject::User => Kind::User,
    };
    let variable = Variable { name: subject.variable().to_owned(), seen: kind.into() };
    let mut checker = Checker { variables: vec![variable], nesting: 0, cost: Cost::default() };
    let seen = checker.visit(tree, DEPTH)?;
    Ok(Checked { is_bool: seen.kind == Kind::Bool, starts: seen.starts, cost: checker.cost })
}

/// A kind for values of both kinds.
fn join(one: &Kind, two: &Kind) -> Option<Kind> {
    Some(match (one, two) {
        (one, two) if one == two => one.clone(),
        (Kind::Dyn, _) | (_, Kind::Dyn) => Kind::Dyn,
        (Kind::List(one), Kind::List(two)) => Kind::List(Box::new(join(one, two)?)),
        (Kind::Map(one), Kind::Map(two)) => Kind::Map(Box::new(join(one, two)?)),
        (Kind::Optional(one), Kind::Optional(two)) => Kind::Optional(Box::new(join(one, two)?)),
        _ => return None,
    })
}

fn may_be(seen: &Seen, kind: &Kind) -> bool {
    join(&seen.kind, kind).is_some()
}

fn no_overload(function: &str, seen: &[Seen]) -> String {
    let kinds = seen.iter().map(|seen| shown(&seen.kind)).collect::<Vec<_>>().join(", ");
    format!("found no matching overload for '{function}' applied to '({kinds})'")
}

/// CEL's name of a kind.
fn shown(kind: &Kind) -> String {
    match kind {
        Kind::Dyn => "dyn".to_owned(),
        Kind::Null => "null".to_owned(),
        Kind::Bool => "bool".to_owned(),
        Kind::Int => "int".to_owned(),
        Kind::Uint => "uint".to_owned(),
        Kind::Double => "double".to_owned(),
        Kind::String => "string".to_owned(),
        Kind::List(of) => format!("list({})", shown(of)),
        Kind::Map(of) => format!("map(string, {})", shown(of)),
        Kind::Optional(of) => format!("optional_type({})", shown(of)),
        Kind::User => "kubernetes.UserInfo".to_owned(),
    }
}

fn unsupported(what: &str) -> String {
    format!("{what} is not supported here")
}

impl Checker {
    fn visit(&mut self, tree: &mut IdedExpr, left: usize) -> Result<Seen, String> {
        let left = left.checked_sub(1).ok_or_else(|| format!("nested more than {DEPTH} deep"))?;
        match &mut tree.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => {
                let found = self.variables.iter().rev().find(|variable| variable.name == *name);
                found
                    .map(|variable| variable.seen.clone())
                    .ok_or_else(|| format!("undeclared reference to '{name}' (in container '')"))
            }
            Expr::Select(select) => {
                let of = self.visit(&mut select.operand, left)?;
                select.field = escape::unescaped(&select.field);
                let kind = field(&of.kind, &select.field)?;
                let (test, optional) = (select.test, matches!(of.kind, Kind::Optional(_)));
                if test || optional {
                    let select = std::mem::take(select);
                    let at = LiteralValue::String(select.field.into());
                    let at = IdedExpr { id: tree.id, expr: Expr::Literal(at) };
                    let function = if test { presence::HAS } else { presence::CHOSEN };
                    tree.expr = Expr::Call(CallExpr {
                        func_name: function.to_owned(),
                        target: None,
                        args: vec![*select.operand, at],
                    });
                }
                Ok(if test { Kind::Bool } else { kind }.into())
            }
            Expr::List(list) if list.optional_indices.is_empty() => {
                let mut all = Seen { kind: Kind::Dyn, starts: Start::Nothing };
                for (index, element) in list.elements.iter_mut().enumerate() {
                    let seen = self.visit(element, left)?;
                    let kind = if index == 0 { Some(seen.kind) } else { join(&all.kind, &seen.kind) };
                    all.kind = kind.ok_or("the elements of a list are of different types")?;
                    all.starts = all.starts.or(seen.starts);
                }
                Ok(Seen { kind: Kind::List(Box::new(all.kind)), starts: all.starts })
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    let EntryExpr::MapEntry(entry) = &mut entry.expr else {
                        return Err(unsupported("an entry of a map"));
                    };
                    let key = self.visit(&mut entry.key, left)?;
                    if entry.optional || !may_be(&key, &Kind::String) {
                        return Err(unsupported("a map whose keys are not all texts"));
                    }
                    self.visit(&mut entry.value, left)?;
                }
                Ok(Kind::Map(Box::new(Kind::Dyn)).into())
            }
            Expr::Call(call) => self.call(call, left),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, left),
            Expr::List(_) => Err(unsupported("an optional element")),
            Expr::Struct(object) => Err(unsupported(&format!("{:?}", object.type_name))),
            Expr::Unspecified => Err(unsupported("nothing")),
        }
    }

    fn call(&mut self, call: &mut CallExpr, left: usize) -> Result<Seen, String> {
        if let Some(target) = &mut call.target {
            if let Expr::Ident(name) = &target.expr
                && !self.variables.iter().any(|variable| variable.name == *name)
            {
                let function = format!("{name}.{}", call.func_name);
                let args = self.visit_all(&mut call.args, left)?;
                return of_function(&function, &args);
            }
            let mut seen = vec![self.visit(target, left)?];
            seen.extend(self.visit_all(&mut call.args, left)?);
            return self.method(call, &seen);
        }
        if matches!(call.func_name.as_str(), operators::OPT_SELECT | operators::INDEX | operators::OPT_INDEX)
            && let [_, at] = call.args.as_mut_slice()
            && let Expr::Literal(LiteralValue::String(text)) = &mut at.expr
        {
            *text = escape::unescaped(text.inner()).into();
        }
        let args = self.visit_all(&mut call.args, left)?;
        let of_optional = args.first().is_some_and(|of| matches!(of.kind, Kind::Optional(_)));
        let seen = of_operator(&call.func_name, &args);
        if matches!(call.func_name.as_str(), operators::OPT_SELECT | operators::OPT_INDEX)
            || (call.func_name == operators::INDEX && of_optional)
        {
            presence::CHOSEN.clone_into(&mut call.func_name);
        }
        match seen {
            Some(seen) => seen,
            None => of_function(&call.func_name, &args),
        }
    }

    fn visit_all(&mut self, trees: &mut [IdedExpr], left: usize) -> Result<Vec<Seen>, String> {
        trees.iter_mut().map(|tree| self.visit(tree, left)).collect()
    }

    /// A method call; the receiver comes first.
    fn method(&mut self, call: &mut CallExpr, seen: &[Seen]) -> Result<Seen, String> {
        let name = call.func_name.as_str();
        if name == "matches" {
            let [text, _] = seen else { return Err(no_overload(name, seen)) };
            let [argument] = call.args.as_mut_slice() else { return Err(no_overload(name, seen)) };
            let Expr::Literal(LiteralValue::String(literal)) = &mut argument.expr else {
                return Err(unsupported("a regular expression that is no literal"));
            };
            if !may_be(text, &Kind::String) {
                return Err(no_overload(name, seen));
            }
            *literal = pattern::translated(literal.inner())?.into();
            return Ok(Kind::Bool.into());
        }
        if let Some(seen) = of_optional(name, seen) {
            return seen;
        }
        if let ("size", [of]) = (name, seen) {
            return size(of);
        }
        let mut named = METHODS.iter().filter(|method| method.name == name).peekable();
        if named.peek().is_none() {
            return Err(unsupported(&format!("the function {name:?}")));
        }
        self.cost.splits |= name == "split";
        let fits = |kinds: &[Shape], seen: &[Seen]| {
            kinds.len() == seen.len() && kinds.iter().zip(seen).all(|(kind, seen)| may_be(seen, &kind.kind()))
        };
        let fitting = named.find(|method| {
            seen.split_first()
                .is_some_and(|(of, args)| may_be(of, &method.of.kind()) && fits(method.takes, args))
        });
        fitting.map(|method| method.gives.kind().into()).ok_or_else(|| no_overload(name, seen))
    }

    fn comprehension(&mut self, all: &mut ComprehensionExpr, left: usize) -> Result<Seen, String> {
        let range = self.visit(&mut all.iter_range, left)?;
        let item = match range.kind {
            Kind::List(of) => Seen { kind: *of, starts: range.starts },
            Kind::Map(_) => Kind::String.into(),
            Kind::Dyn => Kind::Dyn.into(),
            other => {
                return Err(format!(
                    "expression of type '{}' cannot be range of a comprehension",
                    shown(&other)
                ));
            }
        };
        if all.iter_var2.is_some() {
            return Err(unsupported("a comprehension of two variables"));
        }
        let init = self.visit(&mut all.accu_init, left)?;
        self.nesting += 1;
        self.cost.nesting = self.cost.nesting.max(self.nesting);
        if self.nesting > NESTING {
            return Err(format!(
                "more than {NESTING} comprehensions within each other are not supported here"
            ));
        }
        let known = self.variables.len();
        self.variables.push(Variable { name: all.accu_var.clone(), seen: init.clone() });
        self.visit(&mut all.loop_cond, left)?;
        self.variables.push(Variable { name: all.iter_var.clone(), seen: item });
        let step = self.visit(&mut all.loop_step, left)?;
        self.variables.truncate(known);
        let kind = join(&init.kind, &step.kind)
            .ok_or_else(|| no_overload("a comprehension", std::slice::from_ref(&step)))?;
        let kind = if matches!(init.kind, Kind::List(_)) { step.kind } else { kind };
        let seen = Seen { kind, starts: init.starts.or(step.starts) };
        self.variables.push(Variable { name: all.accu_var.clone(), seen });
        let result = self.visit(&mut all.result, left);
        self.variables.truncate(known);
        self.nesting -= 1;
        result
    }
}

fn of_literal(literal: &LiteralValue) -> Result<Seen, String> {
    Ok(match literal {
        LiteralValue::Boolean(_) => Kind::Bool.into(),
        LiteralValue::Double(_) => Kind::Double.into(),
        LiteralValue::Int(_) => Kind::Int.into(),
        LiteralValue::UInt(_) => Kind::Uint.into(),
        LiteralValue::Null => Seen { kind: Kind::Null, starts: Start::Nothing },
        LiteralValue::String(text) => Seen { kind: Kind::String, starts: Start::of(text.inner()) },
        LiteralValue::Bytes(_) => return Err(unsupported("a literal of bytes")),
    })
}

/// The kind of `of.name`.
fn field(of: &Kind, name: &str) -> Result<Kind, String> {
    match (of, name) {
        (Kind::Dyn, _) => Ok(Kind::Dyn),
        (Kind::Map(of), _) => Ok((**of).clone()),
        (Kind::Optional(of), _) => Ok(Kind::Optional(Box::new(field(of, name)?))),
        (Kind::User, "username" | "uid") => Ok(Kind::String),
        (Kind::User, "groups") => Ok(Shape::Texts.kind()),
        (Kind::User, "extra") => Ok(Kind::Map(Box::new(Shape::Texts.kind()))),
        (Kind::User, _) => Err(format!("undefined field '{name}'")),
        (other, _) => Err(format!("type '{}' does not support field selection", shown(other))),
    }
}

fn size(of: &Seen) -> Result<Seen, String> {
    match of.kind {
        Kind::Dyn | Kind::String | Kind::List(_) | Kind::Map(_) => Ok(Kind::Int.into()),
        _ => Err(no_overload("size", std::slice::from_ref(of))),
    }
}

/// Functions without a receiver.
fn of_function(name: &str, args: &[Seen]) -> Result<Seen, String> {
    match (name, args) {
        ("size", [of]) => size(of),
        ("dyn", [of]) => Ok(Seen { kind: Kind::Dyn, starts: of.starts.clone() }),
        ("optional.none", []) => {
            Ok(Seen { kind: Kind::Optional(Box::new(Kind::Dyn)), starts: Start::Nothing })
        }
        ("optional.of", [of]) => {
            Ok(Seen { kind: Kind::Optional(Box::new(of.kind.clone())), starts: of.starts.clone() })
        }
        _ => Err(unsupported(&format!("the function {name:?}"))),
    }
}

/// Methods of an optional value; `None` for other methods.
fn of_optional(name: &str, seen: &[Seen]) -> Option<Result<Seen, String>> {
    let (of, args) = seen.split_first()?;
    let within = match &of.kind {
        Kind::Optional(within) => (**within).clone(),
        Kind::Dyn => Kind::Dyn,
        _ if matches!(name, "orValue" | "or" | "hasValue" | "value") => {
            return Some(Err(no_overload(name, seen)));
        }
        _ => return None,
    };
    let either = |kind: &Kind, other: &Seen| {
        let kind = join(kind, &other.kind).ok_or_else(|| no_overload(name, seen))?;
        Ok(Seen { kind, starts: of.starts.clone().or(other.starts.clone()) })
    };
    Some(match (name, args) {
        ("hasValue", []) => Ok(Kind::Bool.into()),
        ("value", []) => Ok(Seen { kind: within, starts: of.starts.clone() }),
        ("orValue", [other]) => either(&within, other),
        ("or", [other]) => either(&of.kind, other),
        _ => return None,
    })
}

/// Operators; `None` for other functions.
fn of_operator(name: &str, args: &[Seen]) -> Option<Result<Seen, String>> {
    let is = |kind: &Kind| args.iter().all(|seen| may_be(seen, kind));
    let given = |fits: bool, kind: Kind| {
        if fits { Ok(kind.into()) } else { Err(no_overload(name, args)) }
    };
    Some(match (name, args) {
        (
            operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::NOT_STRICTLY_FALSE,
            _,
        ) => given(is(&Kind::Bool), Kind::Bool),
        (operators::EQUALS | operators::NOT_EQUALS, [one, two]) => {
            given(join(&one.kind, &two.kind).is_some(), Kind::Bool)
        }
        (
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
            [one, two],
        ) => {
            let number = |seen: &Seen| matches!(seen.kind, Kind::Dyn | Kind::Int | Kind::Uint | Kind::Double);
            given((number(one) && number(two)) || is(&Kind::String) || is(&Kind::Bool), Kind::Bool)
        }
        (operators::CONDITIONAL, [condition, one, two]) => match join(&one.kind, &two.kind) {
            Some(kind) if may_be(condition, &Kind::Bool) => {
                Ok(Seen { kind, starts: one.starts.clone().or(two.starts.clone()) })
            }
            _ => Err(no_overload(name, args)),
        },
        (operators::ADD, [one, two]) => add(one, two).ok_or_else(|| no_overload(name, args)),
        (operators::IN, [one, two]) => match &two.kind {
            Kind::Dyn => Ok(Kind::Bool.into()),
            Kind::List(of) => given(may_be(one, of), Kind::Bool),
            Kind::Map(_) => given(may_be(one, &Kind::String), Kind::Bool),
            _ => Err(no_overload(name, args)),
        },
        (operators::INDEX, [of, at]) => index(of, at).ok_or_else(|| no_overload(name, args)),
        (operators::OPT_INDEX, [of, at]) => {
            index(of, at).map(optional).ok_or_else(|| no_overload(name, args))
        }
        (operators::OPT_SELECT, [of, _]) => match &of.kind {
            Kind::User => Err(unsupported("an optional field of user")),
            kind => field(kind, "").map(Seen::from).map(optional),
        },
        (
            operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
            | operators::NEGATE,
            _,
        ) => Err(unsupported(&format!("arithmetic ({name})"))),
        _ => return None,
    })
}

fn optional(seen: Seen) -> Seen {
    match seen.kind {
        Kind::Optional(_) => seen,
        kind => Seen { kind: Kind::Optional(Box::new(kind)), starts: seen.starts },
    }
}

fn add(one: &Seen, two: &Seen) -> Option<Seen> {
    // A sum has the kind that one of its parts is known to have.
    let kind = match (&one.kind, &two.kind) {
        (Kind::Dyn, known) | (known, Kind::Dyn) => known.clone(),
        (one, two) => join(one, two)?,
    };
    let starts = match (&one.kind, &kind) {
        (Kind::List(_), _) => one.starts.clone().or(two.starts.clone()),
        // After an empty text the second part is the beginning.
        (Kind::String, _) if one.starts == Start::Nothing => two.starts.clone(),
        (Kind::String, _) => one.starts.clone(),
        _ => Start::Unknown,
    };
    match kind {
        // An appended list tells the kind of elements of an empty list before it.
        Kind::List(_) if one.kind == Kind::List(Box::new(Kind::Dyn)) && one.starts == Start::Nothing => {
            Some(Seen { kind: two.kind.clone(), starts })
        }
        Kind::Dyn | Kind::String | Kind::List(_) | Kind::Int | Kind::Uint | Kind::Double => {
            Some(Seen { kind, starts })
        }
        _ => None,
    }
}

fn index(of: &Seen, at: &Seen) -> Option<Seen> {
    match &of.kind {
        Kind::Dyn => Some(Kind::Dyn.into()),
        Kind::List(within) if may_be(at, &Kind::Int) => {
            Some(Seen { kind: (**within).clone(), starts: of.starts.clone() })
        }
        Kind::Map(within) if may_be(at, &Kind::String) => Some((**within).clone().into()),
        Kind::Optional(within) => {
            let inner = Seen { kind: (**within).clone(), starts: of.starts.clone() };
            index(&inner, at).map(optional)
        }
        _ => None,
    }
}
