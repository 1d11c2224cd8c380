import { describe, expect, it } from "vitest";
import { languageOf, parts, voiceFor } from "./speechText";

describe("text that is read aloud", () => {
  it("has the words of an answer, without code and Markdown", () => {
    expect(parts("# Title\n\nCall `a_b` **now**. [See](http://x.test).\n\n```js\nlet a;\n```\n\n- one\n- two\n\n---\n")).toEqual(["Title", "Call a_b now. See.", "one", "two"]);
    expect(parts("Text\n\n```js\nlet a;\n")).toEqual(["Text"]);
    expect(parts("```js\nlet a;\n```")).toEqual([]);
  });
  it("is split at sentences, and long sentences at words", () => {
    const sentence = `${"word ".repeat(30).trim()}.`;
    const long = parts(`${sentence} ${sentence}`);
    expect(long).toEqual([sentence, sentence]);
    const endless = parts("word ".repeat(200));
    expect(endless.every((part) => part.length <= 240 && part.startsWith("word") && part.endsWith("word"))).toBe(true);
    expect(endless.join(" ")).toBe("word ".repeat(200).trim());
    const chinese = parts("今天天气很好。".repeat(80));
    expect(chinese.every((part) => part.length <= 240 && part.endsWith("。"))).toBe(true);
    expect(chinese.join("")).toBe("今天天气很好。".repeat(80));
    expect(parts("x".repeat(500)).join("")).toBe("x".repeat(500));
  });
});

describe("language of a text", () => {
  const check = (text: string, expected: string): void => expect(languageOf(text, "en"), text).toBe(expected);
  it("is that of its script or its words", () => {
    check("今天天气很好", "zh");
    check("今日はいい天気です", "ja");
    check("오늘 날씨가 좋습니다", "ko");
    check("Сегодня хорошая погода", "ru");
    check("The name is 天气 in Chinese, and it is not the only one", "en");
    check("Das Wetter ist heute schön und nicht zu warm", "de");
    check("Le temps est beau et les oiseaux chantent dans les arbres", "fr");
    check("El tiempo es bueno y los pájaros cantan en las ramas", "es");
  });
  it("is that of the interface if the text shows none", () => {
    expect([languageOf("42", "zh"), languageOf("", "de"), languageOf("xyz", "fr")]).toEqual(["zh", "de", "fr"]);
  });
});

describe("voice", () => {
  const voice = (lang: string, more = {}) => ({ lang, localService: true, default: false, ...more });
  it("speaks the language, in a region of the user", () => {
    const voices = [voice("de-DE", { default: true }), voice("en-US"), voice("en-GB"), voice("zh_CN")];
    expect(voiceFor(voices, "en", ["en-GB", "en"])?.lang).toBe("en-GB");
    expect(voiceFor(voices, "en", ["fr-FR"])?.lang).toBe("en-US");
    expect(voiceFor(voices, "zh", [])?.lang).toBe("zh_CN");
    expect(voiceFor(voices, "ja", [])?.lang).toBe("de-DE");
  });
  it("is never one of a server", () => {
    expect(voiceFor([voice("en-US", { localService: false, default: true }), voice("de-DE")], "en", [])?.lang).toBe("de-DE");
    expect(voiceFor([voice("en-US", { localService: false })], "en", [])).toBeUndefined();
  });
});
