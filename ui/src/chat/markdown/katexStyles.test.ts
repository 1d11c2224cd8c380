import katex from "katex";
import { expect, it } from "vitest";
import { carried, declarations } from "./katexStyles";

it("only plain lengths and colours pass", () => {
  const check = (style: string, expected: string): void => expect(declarations(style).map(([name, value]) => `${name}:${value}`).join(";"), style).toBe(expected);
  check("height:1.2em;vertical-align:-0.35em;", "height:1.2em;vertical-align:-0.35em");
  check("color:#c00;margin-left:-.5em", "color:#c00;margin-left:-.5em");
  check("position:relative; position:fixed", "position:relative");
  check("background-color:url(http://evil.test/x)", "");
  check("background:url(//evil.test);width:expression(alert(1))", "");
  check("z-index:9;opacity:0;height", "");
});

it("styles of KaTeX become data and leave no style attribute", () => {
  const formulas = ["\\frac{a+b}{2}", "\\begin{pmatrix}a&b\\\\c&d\\end{pmatrix}", "\\sqrt[3]{x}", "\\color{red}{x}", "\\boxed{x}", "\\overbrace{a+b}^{n}", "\\cancel{x}", "\\begin{array}{|c|c|}\\hline 1&2\\\\\\hline\\end{array}"];
  for (const formula of formulas) {
    const drawn = katex.renderToString(formula, { displayMode: true, throwOnError: false });
    const lost = [...drawn.matchAll(/ style="([^"]*)"/g)].flatMap(([, style = ""]) => style.split(";").filter((one) => one !== "" && declarations(one).length === 0));
    expect(lost, `all declarations are allowed: ${formula}`).toEqual([]);
    expect(carried(drawn)).not.toContain(" style=");
    expect(carried(drawn), formula).toContain("data-layout=");
  }
});
