// Words by key and language. `t("chat.send")` in a template follows the language; nothing else in the UI has words.
// Keys are `file.name`: `en/chat.json` holds `chat.*`. A test holds the languages and the uses against each other.

export const LANGUAGES = { en: "English", "zh-CN": "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;
type Words = Record<string, string>;

const files = import.meta.glob<Words>("./{en,zh-CN}/*.json", { eager: true, import: "default" });

function collect(): Record<Language, Words> {
  const all: Record<Language, Words> = { en: {}, "zh-CN": {} };
  for (const [path, words] of Object.entries(files)) {
    const [, language, file] = /^\.\/([^/]+)\/([^/]+)\.json$/.exec(path) ?? [];
    if (language === undefined || file === undefined) continue;
    for (const [name, text] of Object.entries(words)) all[language as Language][`${file}.${name}`] = text;
  }
  return all;
}

const words = collect();
const KEY = "cairn.language";

function isLanguage(value: unknown): value is Language {
  return typeof value === "string" && value in LANGUAGES;
}

function initial(): Language {
  try {
    const stored = localStorage.getItem(KEY);
    if (isLanguage(stored)) return stored;
  } catch {
    // No storage: the browser's language decides.
  }
  const wanted = typeof navigator === "undefined" ? "en" : navigator.language;
  return wanted.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
}

class Locale {
  current = $state<Language>(initial());

  set(language: Language): void {
    this.current = language;
    if (typeof document !== "undefined") document.documentElement.lang = language;
    try {
      localStorage.setItem(KEY, language);
    } catch {
      // The choice holds until the page is closed.
    }
  }
}

export const locale = new Locale();
if (typeof document !== "undefined") document.documentElement.lang = locale.current;

export type Params = Record<string, string | number>;

/** Puts values into a text: `{name}`, and `{count|chat|chats}`, which picks by the language's plural of `count`. */
export function fill(text: string, params: Params, language: Language): string {
  return text.replace(/\{(\w+)(?:\|([^|{}]*)\|([^{}]*))?\}/g, (whole, name: string, one?: string, other?: string) => {
    const value = params[name];
    if (value === undefined) return whole;
    if (one === undefined || other === undefined) return typeof value === "number" ? number(value) : value;
    return new Intl.PluralRules(language).select(Number(value)) === "one" ? one : other;
  });
}

/** The words of a key in the language of the UI; the key itself where there are none, which a test forbids. */
export function t(key: string, params: Params = {}): string {
  const text = words[locale.current][key] ?? words.en[key] ?? key;
  return fill(text, params, locale.current);
}

/** Whether there are words for a key: for keys that the server's names make up. */
export function has(key: string): boolean {
  return key in words.en;
}

export function number(value: number, digits = 0): string {
  return new Intl.NumberFormat(locale.current, { maximumFractionDigits: digits, minimumFractionDigits: 0 }).format(value);
}
