import { describe, expect, it } from "vitest";
import { sends } from "./sending";
import { Announcements } from "./announcements";

describe("announced text", () => {
  /** Stages of a growing answer; the announced text at each stage and at the end. */
  const check = (stages: string[], expected: string[]): void => {
    const speaking = new Announcements();
    expect(stages.map((source, at) => speaking.next(source, at === stages.length - 1))).toEqual(expected);
  };
  it("has whole sentences, each once", () => {
    check(["One", "One is. Tw", "One is. Two is. Three", "One is. Two is. Three"], ["", "One is.", "Two is.", "Three"]);
    check(["一。二", "一。二！三"], ["一。", "二！三"]);
    check(["Version 1.2 is", "Version 1.2 is here. "], ["", "Version 1.2 is here."]);
  });
  it("leaves out code and Markdown syntax", () => {
    check(["**Bold** [link](http://x.test). ```"], ["Bold link."]);
    check(["Call `load_model_file` with _care_ and __two__ names: a_b. "], ["Call load_model_file with care and two names: a_b."]);
    check(["See. \n```js\nlet a. b\n", "See. \n```js\nlet a. b\n```\nDone. "], ["See.", "Done."]);
  });
});

describe("send keys", () => {
  const press = (more: object) => ({ key: "Enter", shiftKey: false, ctrlKey: false, metaKey: false, isComposing: false, keyCode: 13, ...more });
  const check = (more: object, byEnter: boolean, byMod: boolean): void =>
    expect([sends(press(more), "enter"), sends(press(more), "mod_enter")], JSON.stringify(more)).toEqual([byEnter, byMod]);
  it("are Enter, or Enter with Ctrl or Cmd", () => {
    check({}, true, false);
    check({ ctrlKey: true }, true, true);
    check({ metaKey: true }, true, true);
    check({ shiftKey: true, ctrlKey: true }, false, false);
    check({ key: "a" }, false, false);
  });
  it("are ignored while an input method composes", () => {
    check({ isComposing: true, ctrlKey: true }, false, false);
    check({ keyCode: 229, ctrlKey: true }, false, false);
  });
});
