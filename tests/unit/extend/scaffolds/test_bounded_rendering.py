"""Templates that would run or grow without end, and those that only look so."""

from __future__ import annotations

import sys

import pytest

from buddy.extend.scaffolds.bounded_rendering import RenderingError, render

KNOWN = {"name": "shop", "parts": ["a", "b"]}
NESTED = "{% for a in range(99999) %}{% for b in range(99999) %}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{NESTED}{{% endfor %}}{{% endfor %}}", "does not come to an end"),
        (f"{NESTED}x{{% endfor %}}{{% endfor %}}", "does not come to an end"),
        (f"{NESTED}{{{{ loop.index }}}}{{% endfor %}}{{% endfor %}}", "does not come to an end"),
        (f"{{% set t %}}{NESTED}{{% endfor %}}{{% endfor %}}{{% endset %}}", "does not come to an end"),
        (f"{{% if false %}}{{% endif %}}{NESTED}{{% set c = b %}}{{% endfor %}}{{% endfor %}}", "end"),
        ("{{ 'a' | slice(999999999) | list }}", "too large"),
        ("{{ 'a' | batch(999999999, 'x') | list | length }}", "too large"),
        ("{{ 'a' | center(width=999999999) }}", "too large"),
        ("{{ 'a'.ljust(999999999) }}", "too large"),
        ("{% for a in range(99999) %}{{ 'x' * 9999 }}{% endfor %}", "is longer than"),
        ("{{ 'x' * 9999999999 }}", "too large"),
        ("{{ 9999999999 * 'x' }}", "too large"),
        ("{{ [0] * 9999999999 }}", "too large"),
        ("{{ range(99999) | list * 99999 }}", "too large"),
        ("{{ 9 ** 9999999 }}", "too large"),
        ("{{ (9 ** 9999) * (9 ** 99999) }}", "too large"),
        ("{{ '%999999999d' % 1 }}", "too large"),
        ("{{ '%*d' % (999999999, 1) }}", "too large"),
        ("{{ range(999999999) }}", "too large"),
        ("{{ '{:>2000000000}'.format('a') | length }}", "too large"),
        ("{{ '{x:>99999}'.format_map({'x': 1}) }}", "too large"),
        ("{{ '{0:>{1}}'.format('a', '2000000000') | length }}", "too large"),
        ("{{ '%(x)2000000000s' % {'x': 1} }}", "too large"),
        ("{{ '%(x)-2000000000s' % {'x': 1} }}", "too large"),
        ("{{ '%.2000000000f' % 1 }}", "too large"),
        ("{{ '%(x)2000000000d' | format(x=1) }}", "too large"),
        ("{{ '%2000000000d' | format(1) }}", "too large"),
        ("{{ '%*d' | format(99999, 1) }}", "too large"),
        ("{{ ('a' * 90000) | replace('a', 'b' * 90000) | length }}", "too large"),
        ("{{ ('a' * 90000).replace('a', 'b' * 90000) | length }}", "too large"),
        ("{{ ('x' * 90000).join('y' * 90000) | length }}", "too large"),
        ("{{ ('y' * 90000) | join('x' * 90000) | length }}", "too large"),
        ("{{ ''.join(['a' * 90000] * 90000) | length }}", "too large"),
        ("{{ (['a' * 90000] * 90000) | join | length }}", "too large"),
        ("{{ ('a\n' * 50000) | indent(width='x' * 90000) | length }}", "too large"),
        ("{{ ('a' * 90000).translate({97: 'b' * 90000}) | length }}", "too large"),
        ("{{ ('\t' * 90000).expandtabs(90000) | length }}", "too large"),
        ("{% macro m(x) %}{{ m(x) }}{{ m(x) }}{% endmacro %}{{ m(1) }}", "recursion"),
        ("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}", "end"),
        ("{% for a in parts recursive %}{{ loop(parts) }}{% endfor %}", "recursion"),
    ],
)
def test_ATTACK7_rendering_without_end_is_an_error(text: str, why: str) -> None:
    before = sys.gettrace()

    with pytest.raises(RenderingError, match=why):
        render(text, KNOWN)

    assert sys.gettrace() is before


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{ name }}", "shop"),
        ("{% for p in parts %}{{ p }}{% endfor %}", "ab"),
        ("{{ '=' * (name | length) }}", "===="),
        ("{{ '%s-%5d' % (name, 7) }}", "shop-    7"),
        ("{{ '{:>5}-{}'.format('a', 2) }}{{ '{0[a]}'.format({'a': 1}) }}", "    a-21"),
        ("{{ '%(x)5s' % {'x': 1} }}{{ '%s %s' | format('a', 'b') }}", "    1a b"),
        ("{{ name | replace('s', 'z') }} {{ parts | join(', ') }} {{ '-'.join(parts) }}", "zhop a, b a-b"),
        ("{{ 'a\nb' | indent(2) }}{{ '2000000 items'.replace('2', '3') }}", "a\n  b3000000 items"),
        ("{{ 6 * 7 }} {{ 2 ** 10 }} {{ 7 % 4 }} {{ 1.5 * 2 }}", "42 1024 3 3.0"),
        ("{% for n in range(1000) %}{% if n == 999 %}{{ n }}{% endif %}{% endfor %}", "999"),
    ],
)
def test_ordinary_templates_are_rendered(text: str, rendered: str) -> None:
    assert render(text, KNOWN) == rendered


DOUBLED = "{% set ns = namespace(x='a' * 90000) %}{% for i in range(40) %}BODY{% endfor %}{{ ns.x | length }}"
HEAVY = "(['a' * 90000] * 90000)"
DOUBLES = (
    "{% set ns.x = ns.x ~ ns.x %}",
    "{% set ns.x = ns.x + ns.x %}",
    "{% set ns.x = '%s%s' % (ns.x, ns.x) %}",
    "{% set ns.x = '{}{}'.format(ns.x, ns.x) %}",
    "{% set ns.x = '%s%s' | format(ns.x, ns.x) %}",
    "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}",
    "{% set ns.x = [ns.x, ns.x] | string %}",
    "{% set ns.x = [ns.x, ns.x] | tojson %}",
    "{% set ns.x = {'a': ns.x, 'b': ns.x} | pprint %}",
    "{% set ns.x = [ns.x, ns.x] %}",
    "{% set ns.x = (ns.x, ns.x) %}",
    "{% set ns.x = {'a': ns.x, 'b': ns.x} %}",
)


@pytest.mark.parametrize(
    "text",
    [
        *(DOUBLED.replace("BODY", body) for body in DOUBLES),
        f"{{{{ {HEAVY} }}}}",
        f"{{{{ {HEAVY} ~ '' }}}}",
        f"{{{{ {HEAVY} | string | length }}}}",
        f"{{{{ {HEAVY} | tojson | length }}}}",
        f"{{{{ {HEAVY} | pprint | length }}}}",
        f"{{{{ {HEAVY} | upper | length }}}}",
        f"{{{{ {HEAVY} | urlencode | length }}}}",
        f"{{{{ ('%s' % [{HEAVY}]) | length }}}}",
        f"{{{{ '{{}}'.format({HEAVY}) | length }}}}",
        "{{ ('{0}' * 30000).format('a' * 90000) | length }}",
        "{{ (('%(x)s' * 18000) % {'x': 'a' * 90000}) | length }}",
        "{{ ('%(x)s' * 18000) | format(x='a' * 90000) | length }}",
        "{{ ('a ' * 45000) | wordwrap(1, wrapstring='x' * 90000) | length }}",
        "{{ ([0] * 90000) | tojson(indent=90000) | length }}",
        "{{ ('http://a.b ' * 9000) | urlize(rel='x' * 90000) | length }}",
        "{% set t %}{% for a in range(90000) %}" + "y" * 9000 + "{% endfor %}{% endset %}{{ t | length }}",
        "{% macro m() %}{% for a in range(90000) %}"
        + "y" * 9000
        + "{% endfor %}{% endmacro %}{{ m() | length }}",
        "{{ range(99999) | map('string') | map('center', 99999) | list | length }}",
        "{% set ns = namespace(x=(1,), y=(1,)) %}{% for i in range(90) %}{% set ns.x = (ns.x, ns.x) %}"
        "{% set ns.y = (ns.y, ns.y) %}{% endfor %}{{ ns.x == ns.y }}",
    ],
)
def test_ATTACK10_texts_and_lists_that_grow_without_end_are_errors(text: str) -> None:
    with pytest.raises(RenderingError, match=r"too large|does not come to an end"):
        render(text, KNOWN)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{ name ~ '-' ~ 7 ~ parts }}", "shop-7['a', 'b']"),
        ("{{ 'a' ~ 'b' + 'c' }}{{ [1] + [2] }}{{ 1 + 2 }}", "abc[1, 2]3"),
        (
            "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }}{% endfor %}{% set c, d = 5, 6 %}{{ c }}{{ d }}",
            "3756",
        ),
        ("{{ {'a': [1, (2,)]} }}{{ {'a': 1}.a }}{{ [[1, 2][1]] }}", "{'a': [1, (2,)]}1[2]"),
        ("{% set t %}{{ name }}!{% endset %}{{ t ~ t }}{{ t | upper }}", "shop!shop!SHOP!"),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) ~ m(2) }}", "<1><2>"),
        ("{{ ('a' * 50000) | length }}{{ parts | tojson }}{{ 'a b' | wordwrap(1) }}", '50000["a", "b"]a\nb'),
    ],
)
def test_ATTACK10_joined_texts_and_lists_are_as_before(text: str, rendered: str) -> None:
    assert render(text, KNOWN) == rendered
