// The text of an answer for a voice: its words in parts, and their language.
import { plain } from "./announcements";

/** Longest part: some browsers stop in the middle of a longer one. */
const PART_CHARS = 240;

/** Splits the words of an answer into parts that end with a sentence, or with a word of a longer one. */
export function parts(markdown: string): string[] {
  const found: string[] = [];
  for (const paragraph of markdown.replace(/^ {0,3}(```|~~~)[\s\S]*?(?:^ {0,3}\1[^\n]*$|(?![\s\S]))/gm, "\n\n").split(/\n\s*(?:\n|(?=[-+*] |\d+[.)] ))/)) {
    let part = "";
    const words = plain(paragraph.replace(/^\s*(?:[-+*]|\d+[.)])\s+/gm, "")).match(/[^.!?。！？…]*[.!?。！？…]*\s*/g) ?? [];
    for (const sentence of words) {
      if (part !== "" && part.length + sentence.length > PART_CHARS) {
        found.push(part.trim());
        part = "";
      }
      let rest = part + sentence;
      while (rest.length > PART_CHARS) {
        const at = Math.max(rest.lastIndexOf(" ", PART_CHARS), rest.lastIndexOf("，", PART_CHARS), rest.lastIndexOf("、", PART_CHARS)) + 1 || PART_CHARS;
        found.push(rest.slice(0, at).trim());
        rest = rest.slice(at);
      }
      part = rest;
    }
    found.push(part.trim());
  }
  return found.filter((part) => /[\p{L}\p{N}]/u.test(part));
}

/** Scripts that few languages use, each with the most common one. Japanese precedes Chinese: it uses Han characters, too. */
const SCRIPTS: readonly [RegExp, string][] = [
  [/[\p{Script=Hiragana}\p{Script=Katakana}]/gu, "ja"],
  [/\p{Script=Hangul}/gu, "ko"],
  [/\p{Script=Han}/gu, "zh"],
  [/\p{Script=Cyrillic}/gu, "ru"],
  [/\p{Script=Arabic}/gu, "ar"],
  [/\p{Script=Hebrew}/gu, "he"],
  [/\p{Script=Greek}/gu, "el"],
  [/\p{Script=Thai}/gu, "th"],
  [/\p{Script=Devanagari}/gu, "hi"],
];
/** Share of the letters from which a script decides. An English text may quote a Chinese name. */
const SCRIPT_SHARE = 0.2;
/** Frequent short words of languages with Latin letters. */
const WORDS: Record<string, string> = {
  en: "the of and to in is that it for with you are this be on not or as have your",
  de: "der die das und ist nicht ein eine zu den mit von auf für sie dem im sich auch wird",
  fr: "le la les et des est une un du que pour dans vous pas sur avec ce qui au sont",
  es: "el los las y de que es una un para con por del se no su como más está lo",
  it: "il di che è una un per non con del sono gli della si le più da anche questo nel",
  pt: "o de que é uma um para com não os do da em se por mais como você são ao",
  nl: "de het een en van is dat niet op te voor met zijn je aan er ook als wordt door",
  pl: "i w nie na się z do jest to że jak od przez dla po są oraz ale może być",
  tr: "ve bir bu için ile da de olarak daha çok olan en gibi sonra kadar var değil ya ne her",
};
const LANGUAGES = Object.entries(WORDS).map(([language, words]) => [language, new Set(words.split(" "))] as const);

/** The language of a text as a tag like `en`; `fallback` if the text shows none. */
export function languageOf(text: string, fallback: string): string {
  const letters = text.match(/\p{L}/gu)?.length ?? 0;
  for (const [script, language] of SCRIPTS) if ((text.match(script)?.length ?? 0) > letters * SCRIPT_SHARE) return language;
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? [];
  const counts = LANGUAGES.map(([language, frequent]) => [language, words.filter((word) => frequent.has(word)).length] as const);
  const [first, second] = counts.toSorted(([, a], [, b]) => b - a);
  return first !== undefined && second !== undefined && first[1] > second[1] ? first[0] : fallback;
}

/** The properties of a voice that decide. */
export type Voice = Pick<SpeechSynthesisVoice, "lang" | "localService" | "default">;

/** The best voice for a language. A voice that is not on this machine sends the text to a server, so it is never used. */
export function voiceFor<V extends Voice>(voices: readonly V[], language: string, regions: readonly string[]): V | undefined {
  const local = voices.filter((voice) => voice.localService);
  const tag = (voice: V): string => voice.lang.replace("_", "-").toLowerCase();
  const speaks = local.filter((voice) => tag(voice).split("-")[0] === language);
  const region = regions.map((one) => one.toLowerCase()).find((one) => speaks.some((voice) => tag(voice) === one));
  const best = region === undefined ? speaks : speaks.filter((voice) => tag(voice) === region);
  return best.find((voice) => voice.default) ?? best[0] ?? local.find((voice) => voice.default) ?? local[0];
}
