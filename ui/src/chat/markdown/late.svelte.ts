// Parts of the renderer that are loaded late: the highlighter and KaTeX. When one has come, what was drawn without is drawn again.
export const late = $state({ version: 0 });
