// Texts by key and language. `t("chat.send")` in a template follows the language; no other file has texts.
// Keys are `file.name`: `en/chat.json` holds `chat.*`. Tests check that languages and uses match.

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

export function isLanguage(value: unknown): value is Language {
  return typeof value === "string" && value in LANGUAGES;
}

/** The supported language nearest to the system's. */
export function systemLanguage(): Language {
  const wanted = typeof navigator === "undefined" ? undefined : navigator.language;
  return wanted?.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
}

/** The language that `boot.js` has set, which is the last chosen one. */
function initial(): Language {
  const language = typeof document === "undefined" ? undefined : document.documentElement.lang;
  return isLanguage(language) ? language : systemLanguage();
}

class Locale {
  current = $state<Language>(initial());

  set(language: Language): void {
    this.current = language;
    if (typeof document !== "undefined") document.documentElement.lang = language;
  }
}

export const locale = new Locale();

/** Caches a value per key: `Intl` formatters are slow to create. */
export function keyed<K, V>(make: (key: K) => V): (key: K) => V {
  const cache = new Map<K, V>();
  return (key) => {
    const cached = cache.get(key);
    if (cached !== undefined) return cached;
    const value = make(key);
    cache.set(key, value);
    return value;
  };
}

const plurals = keyed((language: Language) => new Intl.PluralRules(language));
const numbers = keyed((language: Language) => keyed((digits: number) => new Intl.NumberFormat(language, { maximumFractionDigits: digits, minimumFractionDigits: 0 })));

export type Params = Record<string, string | number>;

/** Fills in values: `{name}`, and `{count|chat|chats}` by the plural rules of the language. */
export function fill(text: string, params: Params, language: Language): string {
  return text.replace(/\{(\w+)(?:\|([^|{}]*)\|([^{}]*))?\}/g, (whole, name: string, one?: string, other?: string) => {
    const value = params[name];
    if (value === undefined) return whole;
    if (one === undefined || other === undefined) return typeof value === "number" ? number(value) : value;
    return plurals(language).select(Number(value)) === "one" ? one : other;
  });
}

/** The text of a key in the current language, with its placeholders; the key itself if there is none, which a test forbids. */
export function template(key: string): string {
  return words[locale.current][key] ?? words.en[key] ?? key;
}

/** The text of a key in the current language, with values. */
export function t(key: string, params: Params = {}): string {
  return fill(template(key), params, locale.current);
}

/** Whether a key exists, for keys that contain names from the daemon. */
export function has(key: string): boolean {
  return key in words.en;
}

export function number(value: number, digits = 0): string {
  return numbers(locale.current)(digits).format(value);
}
