// KaTeX with its style sheet and fonts from the page's own origin. Loaded with the first formula.
import "katex/dist/katex.min.css";

export { default } from "katex";
