use super::cel_type::{CelType, TextPrefix};
use super::signatures::{METHODS, ValueType};
use super::{RootVariable, escape, optional, pattern};
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

/// The deepest tree that is accepted.
const DEPTH_MAX: usize = 32;
/// How deep comprehensions may be nested in each other.
const NESTING_MAX: u32 = 2;

/// The size of the claims of a token.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) values: u64,
    pub(super) bytes: u64,
}

/// The cost of an evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// The deepest nesting of comprehensions.
    nesting: u32,
    /// Whether a text may be split into a list, which can then have as many elements as the text has bytes.
    splits: bool,
}

impl Cost {
    /// An upper bound of the values that all comprehensions iterate over.
    pub(super) fn of(self, size: Size) -> u64 {
        let longest = if self.splits { size.values.saturating_add(size.bytes) } else { size.values };
        if self.nesting == 0 { 0 } else { longest.saturating_pow(self.nesting) }
    }
}

/// The result of checking an expression.
#[derive(Clone, Debug)]
pub(super) struct CheckedExpression {
    pub(super) is_bool: bool,
    pub(super) prefix: TextPrefix,
    pub(super) cost: Cost,
}

/// What is known of a value without a token.
#[derive(Clone, Debug)]
struct Inferred {
    cel_type: CelType,
    prefix: TextPrefix,
}

impl From<CelType> for Inferred {
    fn from(cel_type: CelType) -> Self {
        Self { cel_type, prefix: TextPrefix::Unknown }
    }
}

struct Variable {
    name: String,
    inferred: Inferred,
}

struct Checker {
    variables: Vec<Variable>,
    nesting: u32,
    cost: Cost,
}

/// Checks a tree, and rewrites names of claims, optional selections and regular expressions for the CEL library.
pub(super) fn check(tree: &mut IdedExpr, root: RootVariable) -> Result<CheckedExpression, String> {
    let cel_type = match root {
        RootVariable::Claims => CelType::Map(Box::new(CelType::Dyn)),
        RootVariable::User => CelType::User,
    };
    let variable = Variable { name: root.name().to_owned(), inferred: cel_type.into() };
    let mut checker = Checker { variables: vec![variable], nesting: 0, cost: Cost::default() };
    let inferred = checker.visit(tree, DEPTH_MAX)?;
    Ok(CheckedExpression {
        is_bool: inferred.cel_type == CelType::Bool,
        prefix: inferred.prefix,
        cost: checker.cost,
    })
}

/// A type that values of both types have.
fn common_type(one: &CelType, two: &CelType) -> Option<CelType> {
    Some(match (one, two) {
        (one, two) if one == two => one.clone(),
        (CelType::Dyn, _) | (_, CelType::Dyn) => CelType::Dyn,
        (CelType::List(one), CelType::List(two)) => CelType::List(Box::new(common_type(one, two)?)),
        (CelType::Map(one), CelType::Map(two)) => CelType::Map(Box::new(common_type(one, two)?)),
        (CelType::Optional(one), CelType::Optional(two)) => {
            CelType::Optional(Box::new(common_type(one, two)?))
        }
        _ => return None,
    })
}

fn is_assignable(inferred: &Inferred, cel_type: &CelType) -> bool {
    common_type(&inferred.cel_type, cel_type).is_some()
}

fn no_overload(function: &str, inferred: &[Inferred]) -> String {
    let types = inferred.iter().map(|inferred| type_name(&inferred.cel_type)).collect::<Vec<_>>().join(", ");
    format!("found no matching overload for '{function}' applied to '({types})'")
}

/// CEL's name of a type.
fn type_name(cel_type: &CelType) -> String {
    match cel_type {
        CelType::Dyn => "dyn".to_owned(),
        CelType::Null => "null".to_owned(),
        CelType::Bool => "bool".to_owned(),
        CelType::Int => "int".to_owned(),
        CelType::Uint => "uint".to_owned(),
        CelType::Double => "double".to_owned(),
        CelType::String => "string".to_owned(),
        CelType::List(of) => format!("list({})", type_name(of)),
        CelType::Map(of) => format!("map(string, {})", type_name(of)),
        CelType::Optional(of) => format!("optional_type({})", type_name(of)),
        CelType::User => "kubernetes.UserInfo".to_owned(),
    }
}

fn unsupported(what: &str) -> String {
    format!("{what} is not supported here")
}

impl Checker {
    fn visit(&mut self, tree: &mut IdedExpr, depth_left: usize) -> Result<Inferred, String> {
        let depth_left =
            depth_left.checked_sub(1).ok_or_else(|| format!("nested more than {DEPTH_MAX} deep"))?;
        match &mut tree.expr {
            Expr::Literal(literal) => infer_literal(literal),
            Expr::Ident(name) => {
                let found = self.variables.iter().rev().find(|variable| variable.name == *name);
                found
                    .map(|variable| variable.inferred.clone())
                    .ok_or_else(|| format!("undeclared reference to '{name}' (in container '')"))
            }
            Expr::Select(select) => {
                let of = self.visit(&mut select.operand, depth_left)?;
                select.field = escape::unescape(&select.field);
                let cel_type = field_type(&of.cel_type, &select.field)?;
                let (test, is_optional) = (select.test, matches!(of.cel_type, CelType::Optional(_)));
                if test || is_optional {
                    let select = std::mem::take(select);
                    let at = LiteralValue::String(select.field.into());
                    let at = IdedExpr { id: tree.id, expr: Expr::Literal(at) };
                    let function = if test { optional::HAS } else { optional::SELECT_OPTIONAL };
                    tree.expr = Expr::Call(CallExpr {
                        func_name: function.to_owned(),
                        target: None,
                        args: vec![*select.operand, at],
                    });
                }
                Ok(if test { CelType::Bool } else { cel_type }.into())
            }
            Expr::List(list) if list.optional_indices.is_empty() => {
                let mut all = Inferred { cel_type: CelType::Dyn, prefix: TextPrefix::NoText };
                for (index, element) in list.elements.iter_mut().enumerate() {
                    let inferred = self.visit(element, depth_left)?;
                    let cel_type = if index == 0 {
                        Some(inferred.cel_type)
                    } else {
                        common_type(&all.cel_type, &inferred.cel_type)
                    };
                    all.cel_type = cel_type.ok_or("the elements of a list are of different types")?;
                    all.prefix = all.prefix.or(inferred.prefix);
                }
                Ok(Inferred { cel_type: CelType::List(Box::new(all.cel_type)), prefix: all.prefix })
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    let EntryExpr::MapEntry(entry) = &mut entry.expr else {
                        return Err(unsupported("an entry of a map"));
                    };
                    let key = self.visit(&mut entry.key, depth_left)?;
                    if entry.optional || !is_assignable(&key, &CelType::String) {
                        return Err(unsupported("a map whose keys are not all texts"));
                    }
                    self.visit(&mut entry.value, depth_left)?;
                }
                Ok(CelType::Map(Box::new(CelType::Dyn)).into())
            }
            Expr::Call(call) => self.call(call, depth_left),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth_left),
            Expr::List(_) => Err(unsupported("an optional element")),
            Expr::Struct(object) => Err(unsupported(&format!("{:?}", object.type_name))),
            Expr::Unspecified => Err(unsupported("nothing")),
        }
    }

    fn call(&mut self, call: &mut CallExpr, depth_left: usize) -> Result<Inferred, String> {
        if let Some(target) = &mut call.target {
            if let Expr::Ident(name) = &target.expr
                && !self.variables.iter().any(|variable| variable.name == *name)
            {
                let function = format!("{name}.{}", call.func_name);
                let args = self.visit_all(&mut call.args, depth_left)?;
                return infer_function(&function, &args);
            }
            let mut inferred = vec![self.visit(target, depth_left)?];
            inferred.extend(self.visit_all(&mut call.args, depth_left)?);
            return self.method(call, &inferred);
        }
        if matches!(call.func_name.as_str(), operators::OPT_SELECT | operators::INDEX | operators::OPT_INDEX)
            && let [_, at] = call.args.as_mut_slice()
            && let Expr::Literal(LiteralValue::String(text)) = &mut at.expr
        {
            *text = escape::unescape(text.inner()).into();
        }
        let args = self.visit_all(&mut call.args, depth_left)?;
        let is_optional_receiver = args.first().is_some_and(|of| matches!(of.cel_type, CelType::Optional(_)));
        let inferred = infer_operator(&call.func_name, &args);
        if matches!(call.func_name.as_str(), operators::OPT_SELECT | operators::OPT_INDEX)
            || (call.func_name == operators::INDEX && is_optional_receiver)
        {
            optional::SELECT_OPTIONAL.clone_into(&mut call.func_name);
        }
        match inferred {
            Some(inferred) => inferred,
            None => infer_function(&call.func_name, &args),
        }
    }

    fn visit_all(&mut self, trees: &mut [IdedExpr], depth_left: usize) -> Result<Vec<Inferred>, String> {
        trees.iter_mut().map(|tree| self.visit(tree, depth_left)).collect()
    }

    /// Checks a method call. The receiver is the first element of `inferred`.
    fn method(&mut self, call: &mut CallExpr, inferred: &[Inferred]) -> Result<Inferred, String> {
        let name = call.func_name.as_str();
        if name == "matches" {
            let [text, _] = inferred else { return Err(no_overload(name, inferred)) };
            let [argument] = call.args.as_mut_slice() else { return Err(no_overload(name, inferred)) };
            let Expr::Literal(LiteralValue::String(literal)) = &mut argument.expr else {
                return Err(unsupported("a regular expression that is no literal"));
            };
            if !is_assignable(text, &CelType::String) {
                return Err(no_overload(name, inferred));
            }
            *literal = pattern::translate(literal.inner())?.into();
            return Ok(CelType::Bool.into());
        }
        if let Some(inferred) = infer_optional_method(name, inferred) {
            return inferred;
        }
        if let ("size", [of]) = (name, inferred) {
            return infer_size(of);
        }
        let mut named = METHODS.iter().filter(|method| method.name == name).peekable();
        if named.peek().is_none() {
            return Err(unsupported(&format!("the function {name:?}")));
        }
        self.cost.splits |= name == "split";
        let fits = |types: &[ValueType], inferred: &[Inferred]| {
            types.len() == inferred.len()
                && types.iter().zip(inferred).all(|(ty, inferred)| is_assignable(inferred, &ty.cel_type()))
        };
        let fitting = named.find(|method| {
            inferred.split_first().is_some_and(|(of, args)| {
                is_assignable(of, &method.receiver.cel_type()) && fits(method.params, args)
            })
        });
        fitting.map(|method| method.result.cel_type().into()).ok_or_else(|| no_overload(name, inferred))
    }

    fn comprehension(&mut self, all: &mut ComprehensionExpr, depth_left: usize) -> Result<Inferred, String> {
        let range = self.visit(&mut all.iter_range, depth_left)?;
        let item = match range.cel_type {
            CelType::List(of) => Inferred { cel_type: *of, prefix: range.prefix },
            CelType::Map(_) => CelType::String.into(),
            CelType::Dyn => CelType::Dyn.into(),
            other => {
                return Err(format!(
                    "expression of type '{}' cannot be range of a comprehension",
                    type_name(&other)
                ));
            }
        };
        if all.iter_var2.is_some() {
            return Err(unsupported("a comprehension of two variables"));
        }
        let init = self.visit(&mut all.accu_init, depth_left)?;
        self.nesting += 1;
        self.cost.nesting = self.cost.nesting.max(self.nesting);
        if self.nesting > NESTING_MAX {
            return Err(format!(
                "more than {NESTING_MAX} comprehensions within each other are not supported here"
            ));
        }
        let known = self.variables.len();
        self.variables.push(Variable { name: all.accu_var.clone(), inferred: init.clone() });
        self.visit(&mut all.loop_cond, depth_left)?;
        self.variables.push(Variable { name: all.iter_var.clone(), inferred: item });
        let step = self.visit(&mut all.loop_step, depth_left)?;
        self.variables.truncate(known);
        let cel_type = common_type(&init.cel_type, &step.cel_type)
            .ok_or_else(|| no_overload("a comprehension", std::slice::from_ref(&step)))?;
        let cel_type = if matches!(init.cel_type, CelType::List(_)) { step.cel_type } else { cel_type };
        let inferred = Inferred { cel_type, prefix: init.prefix.or(step.prefix) };
        self.variables.push(Variable { name: all.accu_var.clone(), inferred });
        let result = self.visit(&mut all.result, depth_left);
        self.variables.truncate(known);
        self.nesting -= 1;
        result
    }
}

fn infer_literal(literal: &LiteralValue) -> Result<Inferred, String> {
    Ok(match literal {
        LiteralValue::Boolean(_) => CelType::Bool.into(),
        LiteralValue::Double(_) => CelType::Double.into(),
        LiteralValue::Int(_) => CelType::Int.into(),
        LiteralValue::UInt(_) => CelType::Uint.into(),
        LiteralValue::Null => Inferred { cel_type: CelType::Null, prefix: TextPrefix::NoText },
        LiteralValue::String(text) => {
            Inferred { cel_type: CelType::String, prefix: TextPrefix::of(text.inner()) }
        }
        LiteralValue::Bytes(_) => return Err(unsupported("a literal of bytes")),
    })
}

/// The type of `of.name`.
fn field_type(of: &CelType, name: &str) -> Result<CelType, String> {
    match (of, name) {
        (CelType::Dyn, _) => Ok(CelType::Dyn),
        (CelType::Map(of), _) => Ok((**of).clone()),
        (CelType::Optional(of), _) => Ok(CelType::Optional(Box::new(field_type(of, name)?))),
        (CelType::User, "username" | "uid") => Ok(CelType::String),
        (CelType::User, "groups") => Ok(ValueType::Texts.cel_type()),
        (CelType::User, "extra") => Ok(CelType::Map(Box::new(ValueType::Texts.cel_type()))),
        (CelType::User, _) => Err(format!("undefined field '{name}'")),
        (other, _) => Err(format!("type '{}' does not support field selection", type_name(other))),
    }
}

fn infer_size(of: &Inferred) -> Result<Inferred, String> {
    match of.cel_type {
        CelType::Dyn | CelType::String | CelType::List(_) | CelType::Map(_) => Ok(CelType::Int.into()),
        _ => Err(no_overload("size", std::slice::from_ref(of))),
    }
}

/// Infers the result of a function without a receiver.
fn infer_function(name: &str, args: &[Inferred]) -> Result<Inferred, String> {
    match (name, args) {
        ("size", [of]) => infer_size(of),
        ("dyn", [of]) => Ok(Inferred { cel_type: CelType::Dyn, prefix: of.prefix.clone() }),
        ("optional.none", []) => {
            Ok(Inferred { cel_type: CelType::Optional(Box::new(CelType::Dyn)), prefix: TextPrefix::NoText })
        }
        ("optional.of", [of]) => Ok(Inferred {
            cel_type: CelType::Optional(Box::new(of.cel_type.clone())),
            prefix: of.prefix.clone(),
        }),
        _ => Err(unsupported(&format!("the function {name:?}"))),
    }
}

/// Infers the result of a method of an optional value; `None` for other methods.
fn infer_optional_method(name: &str, inferred: &[Inferred]) -> Option<Result<Inferred, String>> {
    let (of, args) = inferred.split_first()?;
    let within = match &of.cel_type {
        CelType::Optional(within) => (**within).clone(),
        CelType::Dyn => CelType::Dyn,
        _ if matches!(name, "orValue" | "or" | "hasValue" | "value") => {
            return Some(Err(no_overload(name, inferred)));
        }
        _ => return None,
    };
    let either = |cel_type: &CelType, other: &Inferred| {
        let cel_type = common_type(cel_type, &other.cel_type).ok_or_else(|| no_overload(name, inferred))?;
        Ok(Inferred { cel_type, prefix: of.prefix.clone().or(other.prefix.clone()) })
    };
    Some(match (name, args) {
        ("hasValue", []) => Ok(CelType::Bool.into()),
        ("value", []) => Ok(Inferred { cel_type: within, prefix: of.prefix.clone() }),
        ("orValue", [other]) => either(&within, other),
        ("or", [other]) => either(&of.cel_type, other),
        _ => return None,
    })
}

/// Infers the result of an operator; `None` for other functions.
fn infer_operator(name: &str, args: &[Inferred]) -> Option<Result<Inferred, String>> {
    let is = |cel_type: &CelType| args.iter().all(|inferred| is_assignable(inferred, cel_type));
    let given = |fits: bool, cel_type: CelType| {
        if fits { Ok(cel_type.into()) } else { Err(no_overload(name, args)) }
    };
    Some(match (name, args) {
        (
            operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::NOT_STRICTLY_FALSE,
            _,
        ) => given(is(&CelType::Bool), CelType::Bool),
        (operators::EQUALS | operators::NOT_EQUALS, [one, two]) => {
            given(common_type(&one.cel_type, &two.cel_type).is_some(), CelType::Bool)
        }
        (
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
            [one, two],
        ) => {
            let number = |inferred: &Inferred| {
                matches!(inferred.cel_type, CelType::Dyn | CelType::Int | CelType::Uint | CelType::Double)
            };
            given((number(one) && number(two)) || is(&CelType::String) || is(&CelType::Bool), CelType::Bool)
        }
        (operators::CONDITIONAL, [condition, one, two]) => match common_type(&one.cel_type, &two.cel_type) {
            Some(cel_type) if is_assignable(condition, &CelType::Bool) => {
                Ok(Inferred { cel_type, prefix: one.prefix.clone().or(two.prefix.clone()) })
            }
            _ => Err(no_overload(name, args)),
        },
        (operators::ADD, [one, two]) => infer_add(one, two).ok_or_else(|| no_overload(name, args)),
        (operators::IN, [one, two]) => match &two.cel_type {
            CelType::Dyn => Ok(CelType::Bool.into()),
            CelType::List(of) => given(is_assignable(one, of), CelType::Bool),
            CelType::Map(_) => given(is_assignable(one, &CelType::String), CelType::Bool),
            _ => Err(no_overload(name, args)),
        },
        (operators::INDEX, [of, at]) => infer_index(of, at).ok_or_else(|| no_overload(name, args)),
        (operators::OPT_INDEX, [of, at]) => {
            infer_index(of, at).map(into_optional).ok_or_else(|| no_overload(name, args))
        }
        (operators::OPT_SELECT, [of, _]) => match &of.cel_type {
            CelType::User => Err(unsupported("an optional field of user")),
            cel_type => field_type(cel_type, "").map(Inferred::from).map(into_optional),
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

fn into_optional(inferred: Inferred) -> Inferred {
    match inferred.cel_type {
        CelType::Optional(_) => inferred,
        cel_type => Inferred { cel_type: CelType::Optional(Box::new(cel_type)), prefix: inferred.prefix },
    }
}

fn infer_add(one: &Inferred, two: &Inferred) -> Option<Inferred> {
    // If the type of one operand is known, the sum has that type.
    let cel_type = match (&one.cel_type, &two.cel_type) {
        (CelType::Dyn, known) | (known, CelType::Dyn) => known.clone(),
        (one, two) => common_type(one, two)?,
    };
    let prefix = match (&one.cel_type, &cel_type) {
        (CelType::List(_), _) => one.prefix.clone().or(two.prefix.clone()),
        // If the first operand is empty, the sum begins with the second one.
        (CelType::String, _) if one.prefix == TextPrefix::NoText => two.prefix.clone(),
        (CelType::String, _) => one.prefix.clone(),
        _ => TextPrefix::Unknown,
    };
    match cel_type {
        // The elements of an empty list have no type of their own: the appended list determines it.
        CelType::List(_)
            if one.cel_type == CelType::List(Box::new(CelType::Dyn)) && one.prefix == TextPrefix::NoText =>
        {
            Some(Inferred { cel_type: two.cel_type.clone(), prefix })
        }
        CelType::Dyn
        | CelType::String
        | CelType::List(_)
        | CelType::Int
        | CelType::Uint
        | CelType::Double => Some(Inferred { cel_type, prefix }),
        _ => None,
    }
}

fn infer_index(of: &Inferred, at: &Inferred) -> Option<Inferred> {
    match &of.cel_type {
        CelType::Dyn => Some(CelType::Dyn.into()),
        CelType::List(within) if is_assignable(at, &CelType::Int) => {
            Some(Inferred { cel_type: (**within).clone(), prefix: of.prefix.clone() })
        }
        CelType::Map(within) if is_assignable(at, &CelType::String) => Some((**within).clone().into()),
        CelType::Optional(within) => {
            let inner = Inferred { cel_type: (**within).clone(), prefix: of.prefix.clone() };
            infer_index(&inner, at).map(into_optional)
        }
        _ => None,
    }
}
