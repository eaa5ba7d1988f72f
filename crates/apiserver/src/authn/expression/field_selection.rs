use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};

/// Whether `variable.field` occurs in a tree, also as `has(variable.field)` or `variable.?field`.
pub(super) fn selects_field(tree: &IdedExpr, variable: &str, field: &str) -> bool {
    let within = |tree: &IdedExpr| selects_field(tree, variable, field);
    let is_variable = |tree: &IdedExpr| matches!(&tree.expr, Expr::Ident(name) if name == variable);
    let is_field = |tree: &IdedExpr| match &tree.expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner() == field,
        _ => false,
    };
    match &tree.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => false,
        Expr::Select(select) => {
            (is_variable(&select.operand) && select.field == field) || within(&select.operand)
        }
        Expr::Call(call) => {
            let chosen = match call.args.as_slice() {
                [of, what] if call.func_name == operators::OPT_SELECT => is_variable(of) && is_field(what),
                _ => false,
            };
            chosen || call.target.iter().any(|target| within(target)) || call.args.iter().any(within)
        }
        Expr::List(list) => list.elements.iter().any(within),
        Expr::Map(map) => map.entries.iter().any(|entry| entry_selects_field(&entry.expr, &within)),
        Expr::Struct(object) => object.entries.iter().any(|entry| entry_selects_field(&entry.expr, &within)),
        Expr::Comprehension(all) => {
            [&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result]
                .into_iter()
                .any(within)
        }
    }
}

fn entry_selects_field(entry: &EntryExpr, within: &impl Fn(&IdedExpr) -> bool) -> bool {
    match entry {
        EntryExpr::MapEntry(entry) => within(&entry.key) || within(&entry.value),
        EntryExpr::StructField(field) => within(&field.value),
    }
}
