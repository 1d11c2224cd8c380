// KaTeX with its style sheet and fonts, which come from where the page does. Loaded with the first formula.
import "katex/dist/katex.min.css";

export { default } from "katex";
