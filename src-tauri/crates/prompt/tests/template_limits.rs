//! Hostile templates within the limits of one rendering: memory by an allocator that counts, time by the thread's CPU clock.

use std::time::Duration;

use cairn_prompt::{Error, Message, RenderInput, Template};
use cairn_testkit::allocation::{CountingAllocator, peak_bytes};
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Memory of a rendering and of its compiled template. The conversation itself is not counted.
const MOST_BYTES: usize = 64 << 20;
/// Far above the 2 s of a release build, so that a debug build stays below it, and far below what an unlimited template takes.
const MOST_CPU_TIME: Duration = Duration::from_secs(10);

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Parses and renders a template. The last message is a text of 1 MiB.
fn check(parse: fn(&str) -> Result<Template, Error>, source: &str) {
    let name: String = source.chars().take(200).collect();
    let messages =
        [Message::new("user", "Hello"), Message::new("assistant", "Hi"), Message::new("user", "x".repeat(1 << 20))];
    let from = cpu_time();
    let (result, peak) = peak_bytes(|| {
        let input = RenderInput { messages: &messages, ..RenderInput::default() };
        parse(source).and_then(|template| template.render(&input)).map(|text| text.len())
    });
    let took = cpu_time() - from;
    println!("{:6.1} MiB {:6} ms: {name}: {result:?}", peak as f64 / f64::from(1 << 20), took.as_millis());
    assert!(peak <= MOST_BYTES, "{name}: {peak} bytes");
    assert!(took <= MOST_CPU_TIME, "{name}: {took:?}");
}

/// Steps that grow a value, or read the conversation, in each turn of a loop.
const STEPS: &[&str] = &[
    "{% set ns.t = ns.t + ns.t %}",
    "{% set ns.t = ns.t.replace('a', ns.t) %}",
    "{% set ns.t = [ns.t, ns.t] | tojson %}",
    "{% set ns.x = ns.x + ns.x %}",
    "{% set ns.x = [ns.x, ns.x] %}",
    "{% set ns.x = ns.x + [i] %}",
    "{% set ns.x = ns.x + [[i]] %}",
    "{% set ns.x = ns.x + [{'a': i}] %}",
    "{% set ns.x = ns.x + [namespace(a=i)] %}",
    "{% set ns.x = ns.x + [i ~ 'a'] %}",
    "{% set ns.x = [ns.x, i] %}",
    "{% set ns.t = ns.t + 'a' %}",
    "{% set ns.x = ns.x + [ns.t] %}{% set ns.t = ns.t + 'aaaaaaaaaaaaaaaaaaaaaaaa' %}",
    "{% if i < 13 %}{% set ns.x = ns.x + [i, i ~ 'b'] %}{% else %}{% set ns.w = [ns.w, ns.x | batch(1) | list] %}{% endif %}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{% set ns.t = f(ns.t) + f(ns.t) %}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{% set ns.u = f(messages[2].content) %}",
    "{{ messages[2].content[:0] }}",
    "{% set ns.w = [ns.w, messages[2].content | trim] %}",
    "{% set ns.w = [ns.w, messages[2].content.strip()] %}",
    "{% set ns.w = [ns.w, messages[2].content.split('x')] %}",
    "{% set ns.w = [ns.w, messages[2].content | tojson] %}",
    "{% set ns.w = messages | tojson %}",
    "{% set a = range(100000) | list %}",
    "{% set ns.w = [ns.w, range(10000) | list] %}",
    "{% set a = range(100000) | sum %}",
    "{% set a = strftime_now('%Y %Y %Y %Y %Y %Y %Y') %}",
];

/// Steps that read `ns.t`, a text of 2 MiB.
const READS_OF_TEXT: &[&str] = &[
    "{% set ns.x = [ns.x, ns.t | upper] %}",
    "{% set ns.x = ns.t | list %}",
    "{% set ns.x = ns.t | trim | title | capitalize | lower %}",
    "{% set a = ns.m[ns.t] %}",
    "{% set a = ns.t is string %}{% set b = ns.t is eq ns.t %}{% set b = ns.t is lt ns.t %}",
    "{% set a = ns.t[500000] %}",
    "{% set a = ns.t.count('b') %}",
    "{% set a = ns.t.find('c') %}",
    "{% set a = ns.t | length %}",
    "{% set a = ns.t.startswith(ns.t) %}",
    "{% if ns.t %}{% endif %}",
    "{% set a = ns.t | int(0) %}{% set a = ns.t | float(0) %}",
    "{% set a = ns.t | urlencode %}",
    "{% set a = ns.t | first %}{% set a = ns.t | last %}",
    "{% set a = {ns.t: 1, ns.t + 'a': 2} %}",
    "{% set ns.x = [ns.x, ns.t | e] %}",
    "{% for a in ns.t %}{% endfor %}",
    "{% if loop.changed(ns.t) %}{% endif %}",
];

/// Steps that read `ns.x`, a list of 8192 texts.
const READS_OF_LIST: &[&str] = &[
    "{% set ns.w = ns.w + [ns.x | list] %}",
    "{% set ns.w = [ns.w, ns.x | map('string') | list] %}",
    "{% set ns.w = [ns.w, ns.x | map('list') | list] %}",
    "{% set a = ns.x | sort | unique | list %}",
    "{% set a = ns.x | selectattr('a') | list %}",
    "{% set a = ns.x | select('in', ns.x) | list %}",
    "{% set a = ns.x | reject('eq', ns.x) | list %}",
    "{% set a = ns.x | map('upper') | list %}",
    "{% set a = ns.x | items %}",
    "{% set a = 'b' in ns.x %}",
];

/// A template that repeats a step.
fn repeated(step: &str) -> String {
    let start = "{% set ns = namespace(x=['a'], t='ab', m={'a': 1}, u='', w=[]) %}";
    format!("{start}{{% for i in range(100000) %}}{step}{{% endfor %}}")
}

/// Returns a template that doubles `value` `doublings` times and then repeats `step`.
fn reading(value: &str, doublings: u32, step: &str) -> String {
    let double = format!("{{% set {value} = {value} + {value} %}}");
    repeated(&format!("{{% if i < {doublings} %}}{double}{{% else %}}{step}{{% endif %}}"))
}

#[test]
fn hostile_jinja_templates_take_bounded_memory_and_time() {
    STEPS.iter().for_each(|step| check(Template::jinja, &repeated(step)));
    READS_OF_TEXT.iter().for_each(|step| check(Template::jinja, &reading("ns.t", 20, step)));
    READS_OF_LIST.iter().for_each(|step| check(Template::jinja, &reading("ns.x", 13, step)));
    for source in [
        format!("{{{{ [{}] | length }}}}", "'a', ".repeat(48_000)),
        format!("{{{{ [{}] | length }}}}", "{'a':1}, ".repeat(1_000)),
        "{{ a }}".repeat(35_000),
        "{% if a %}{% endif %}".repeat(11_000),
        "{% set a = 1 %}".repeat(17_000),
        format!("{}{}", "{% macro a() %}{% endmacro %}".repeat(5_000), "{{ a() }}".repeat(10_000)),
        "{# a #}".repeat(35_000),
        "{{ 'a' }}".repeat(27_000),
        "{{ a.b.c.d.e.f.g.h }}".repeat(11_000),
    ] {
        check(Template::jinja, &source);
    }
}

#[test]
fn hostile_go_templates_take_bounded_memory_and_time() {
    let big = "{{ $x := printf \"%060000d\" 1 }}{{ range 5 }}{{ $x = print $x $x }}{{ end }}";
    for step in [
        "{{ $x = print $x $x }}",
        "{{ $y := print $x $x }}",
        "{{ $y := printf \"%s%s\" $x $x }}",
        "{{ $y := printf \"%q\" $x }}",
        "{{ $y := html $x }}",
        "{{ $y := js $x }}",
        "{{ $y := urlquery $x }}",
        "{{ $y := json $x }}",
        "{{ $y := json $.Messages }}",
        "{{ $y := eq $x $x }}",
        "{{ $y := lt $x $x }}",
        "{{ $y := len $x }}",
        "{{ $y := slice $x 1 }}",
        "{{ $y := index $x 1000000 }}",
        "{{ range $.Messages }}{{ $y := print .Content }}{{ end }}",
        "{{ $x }}",
        "{{ if and $x $x $x $x $x $x $x $x }}{{ end }}",
    ] {
        check(Template::go, &format!("{big}{{{{ range 999999 }}}}{step}{{{{ end }}}}"));
    }
    for source in [
        "{{ if 1 }}{{ end }}".repeat(6_500),
        "{{ $x := 1 }}".repeat(9_000),
        "{{ and 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 }}".repeat(3_200),
        format!("{{{{ and {} }}}}", "1 ".repeat(60_000)),
        format!("{{{{ range 999999 }}}}{{{{ $x := and {} }}}}{{{{ end }}}}", "1 ".repeat(50_000)),
    ] {
        check(Template::go, &source);
    }
}
