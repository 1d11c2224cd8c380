/**
 * Resolves after the current state has been painted, so that less urgent work can wait for that. A hidden window does not
 * paint; then it resolves soon.
 */
export function afterPaint(): Promise<void> {
  return new Promise((resume) => {
    const late = setTimeout(resume, 200);
    // The second frame begins when the first has been painted.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        clearTimeout(late);
        setTimeout(resume);
      }),
    );
  });
}
