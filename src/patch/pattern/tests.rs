use super::*;
use ctxbridge_syntax::lower_items;

fn tree(source: &str) -> Node {
    let mut items = Vec::new();
    for_each_item(source, Goal::Module, |item| items.push(item.ast)).expect("target is JavaScript");
    lower_items(source, &items)
}

fn count(pattern: &str, source: &str) -> usize {
    let pattern = Pattern::parse(pattern).expect("pattern compiles");
    PatternSearch::new(&pattern).all(&tree(source), &Bindings::default()).len()
}

fn bound(pattern: &str, source: &str) -> Vec<(String, String)> {
    let pattern = Pattern::parse(pattern).expect("pattern compiles");
    let tree = tree(source);
    let found = PatternSearch::new(&pattern).first(&tree, &Bindings::default()).expect("a match");
    found.bindings.iter().map(|(name, node)| (name.to_owned(), source[node.span.range()].to_owned())).collect()
}

#[test]
fn spellings_that_mean_the_same_match() {
    for (pattern, target) in [
        ("f(false, true)", "f(!1,!0)"),
        ("f(!1)", "f(false)"),
        ("f(undefined)", "f(void 0)"),
        ("f('a')", "f(`a`)"),
        ("f(40000)", "f(4e4)"),
        ("f(-1)", "f((-1))"),
        ("f(1/0)", "f(Infinity)"),
        ("a.b", "a[\"b\"]"),
        ("({ b: 1 })", "({'b':1})"),
        ("({ b: b })", "({b})"),
        ("(a, b)", "((a),(b))"),
        ("() => a", "()=>{return a}"),
        ("a(); b();", "a(),b()"),
        ("let x = 1; let y = 2;", "let x=1,y=2,z=3"),
        ("a(); if (b) { c() }", "if(a(),b)c()"),
        ("a(); return b;", "function f(){return a(),b}"),
        ("f(await x)", "async()=>f((await(x)))"),
    ] {
        assert_eq!(count(pattern, target), 1, "{pattern} in {target}");
    }
}

#[test]
fn spellings_that_differ_do_not() {
    for (pattern, target) in [
        ("f(undefined)", "f(null)"),
        ("f(1)", "f('1')"),
        ("a.b", "a[b]"),
        ("a.b", "a?.b"),
        ("a()", "a?.()"),
        ("f(a)", "f(...a)"),
        ("let x = 1", "const x=1"),
        ("let x = 1", "var x=1"),
        ("async function f() {}", "function f(){}"),
        ("x = 1", "x+=1"),
        ("yield x", "function*f(){yield*x}"),
        ("f(a)", "f(a,b)"),
        ("({ a: 1 })", "({a:1,b:2})"),
    ] {
        assert_eq!(count(pattern, target), 0, "{pattern} in {target}");
    }
}

#[test]
fn var_in_a_pattern_is_any_declaration() {
    assert_eq!(count("var $A = 1", "let a=1;const b=1;var c=1"), 3);
}

#[test]
fn a_metavariable_binds_once() {
    assert_eq!(count("$X = $X + 1", "a=a+1"), 1);
    assert_eq!(count("$X = $X + 1", "a=b+1"), 0);
    assert_eq!(count("f($_, $_)", "f(a,b)"), 1);
    assert_eq!(count("$X.m($X.k)", "a.b.m(a.b.k)"), 1);
    // A shorthand property's name and the variable are the same thing.
    assert_eq!(count("({ $NAME: 1 }); f($NAME)", "({a:1});f(a)"), 1);
}

#[test]
fn metavariables_bind_expressions_names_and_parameters() {
    let target = "async function foo(a,{b}){return{messages:a}}";
    let pattern = "async function $F($A, $$$) { return { messages: $A } }";
    assert_eq!(bound(pattern, target), [("F".into(), "foo".into()), ("A".into(), "a".into())]);
    assert_eq!(bound("$O.$P(1)", "x.y.z(1)"), [("O".into(), "x.y".into()), ("P".into(), "z".into())]);
}

#[test]
fn an_ellipsis_takes_any_run() {
    for target in ["f(x)", "f(1,x)", "f(x,2)", "f(1,2,x,3)"] {
        assert_eq!(count("f($$$, x, $$$)", target), 1, "{target}");
    }
    assert_eq!(count("f($$$, x, $$$)", "f(y)"), 0);
    assert_eq!(count("let { a: $A, $$$ } = b", "let{a:x,c:d,...e}=b"), 1);
    assert_eq!(count("function f($$$) { $$$; return 1; $$$ }", "function f(a,b){x();if(y)z();return 1;var q}"), 1);
    // The ellipsis gives back what a first try bound wrongly.
    assert_eq!(count("f($$$, $X, $X)", "f(a,b,b)"), 1);
}

#[test]
fn text_that_looks_like_code_is_not_code() {
    assert_eq!(count("f(x)", "var s='f(x)',t=`f(x)`,u=/f(x)/;// f(x)\n/* f(x) */"), 0);
    assert_eq!(count("f(x)", "var t=`${f(x)}`"), 1);
}

#[test]
fn units_match_inside_any_body() {
    let pattern = "let $R = await $F($M, $$$); $M = $R.messages;";
    let target = "async function*q(){let m=a(),e=b,z=await Vd(m,void 0,y);if(m=z.messages,z.info?.msg)yield z.info.msg}";
    assert_eq!(bound(pattern, target), [("R".into(), "z".into()), ("F".into(), "Vd".into()), ("M".into(), "m".into())]);
    assert_eq!(count(pattern, &target.replace("m=z.messages", "k=z.messages")), 0);
}

#[test]
fn every_construct_is_looked_into() {
    for target in [
        "class A extends f(x){}",
        "class A{m(){f(x)}}",
        "class A{#m(){f(x)}}",
        "class A{p=f(x)}",
        "class A{#p=f(x)}",
        "class A{static{f(x)}}",
        "class A{get[f(x)](){}}",
        "class A{constructor(){f(x)}}",
        "({get a(){return f(x)},set b(v){}})",
        "({[f(x)]:1})",
        "({...f(x)})",
        "switch(a){case f(x):}",
        "switch(a){default:f(x)}",
        "try{}catch{f(x)}",
        "try{}catch({a=f(x)}){}",
        "try{}finally{f(x)}",
        "for(f(x);;);",
        "for(let a=f(x);;);",
        "for(;;f(x));",
        "for(a of f(x));",
        "for(let{a=f(x)}of b);",
        "for(a in b)f(x)",
        "do f(x);while(1)",
        "while(f(x));",
        "l:f(x)",
        "if(a);else f(x)",
        "throw f(x)",
        "a?.[f(x)]",
        "a?.(f(x))",
        "new A(f(x))",
        "new(f(x))",
        "tag`${f(x)}`",
        "[,f(x)]",
        "[...f(x)]",
        "export default f(x)",
        "export const a=f(x)",
        "export function g(a=f(x)){}",
        "export default class{m(){f(x)}}",
        "typeof f(x)",
        "import(f(x))",
        "a=>{f(x)}",
        "[a=f(x)]=b",
        "({a:[b=f(x)]}=c)",
        "f(x).y=1",
        "f(x)[y]++",
        "class A{m(){super[f(x)]()}}",
        "a??f(x)",
    ] {
        assert_eq!(count("f(x)", target), 1, "{target}");
    }
}

#[test]
fn anchors_are_the_literal_words() {
    let pattern = Pattern::parse(r#"yield { type: "stream_request_start", n: $N, "a b c d": 1 }"#).expect("compiles");
    assert_eq!(Vec::from_iter(pattern.anchors()), ["stream_request_start", "type"]);
}

#[test]
fn the_pattern_of_the_edited_target() {
    let pattern = Pattern::parse("await $F($M, $$$); $M = 1").expect("compiles");
    let edited = pattern.replacing("M", "$M = cut($M)").expect("fits");
    assert_eq!(edited.source(), "await $F($M = cut($M), $$$); $M = 1");
    assert!(matches!(pattern.replacing("Q", ""), Err(CodePatternError::NoMetavariable { .. })));
}

#[test]
fn the_nearest_attempt_is_remembered() {
    let pattern = Pattern::parse("let { compactionResult: $R } = await $F($M)").expect("compiles");
    let source = "async()=>{let a=await q(1);let{compactResult:e}=await q(m)}";
    let tree = tree(source);
    let mut search = PatternSearch::new(&pattern);
    assert!(search.first(&tree, &Bindings::default()).is_none());
    let nearest = search.nearest().expect("got somewhere");
    assert_eq!(nearest.expected, "compactionResult");
    assert_eq!(&source[nearest.found.range()], "compactResult");
}

#[test]
fn a_last_ellipsis_is_no_failed_attempt() {
    let nearest = |pattern: &str, source: &str| {
        let pattern = Pattern::parse(pattern).expect("compiles");
        let tree = tree(source);
        let mut search = PatternSearch::new(&pattern);
        assert!(search.first(&tree, &Bindings::default()).is_none());
        let nearest = search.nearest().expect("got somewhere");
        (nearest.expected, source[nearest.found.range()].to_owned())
    };
    let of = |expected: &str, found: &str| (expected.to_owned(), found.to_owned());
    assert_eq!(nearest("f($M, $$$).messages", "f(m,1,2).history"), of("messages", "history"));
    assert_eq!(nearest("f($M)", "f(m,1)"), of("", "1"));
}

#[test]
fn bad_patterns_say_why() {
    assert!(matches!(Pattern::parse("let = "), Err(CodePatternError::Syntax { .. })));
    assert!(matches!(Pattern::parse("}{"), Err(CodePatternError::Syntax { .. })));
    assert!(matches!(Pattern::parse(" ; "), Err(CodePatternError::Empty(_))));
}
