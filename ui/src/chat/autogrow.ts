/** Grows a text field with its text, up to a third of the window. */
export function autogrow(element: HTMLTextAreaElement, _text: string) {
  const fit = (): void => {
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, Math.round(window.innerHeight / 3))}px`;
  };
  fit();
  return { update: fit };
}
