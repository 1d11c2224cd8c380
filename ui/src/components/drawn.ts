/**
 * Resolves when what is there now has been drawn, so that what is only needed later can wait for that. A window that nobody
 * sees draws nothing; then it resolves soon.
 */
export function drawn(): Promise<void> {
  return new Promise((resume) => {
    const late = setTimeout(resume, 200);
    // The second frame begins when the first has been drawn.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        clearTimeout(late);
        setTimeout(resume);
      }),
    );
  });
}
