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

export function isLanguage(value: unknown): value is Language {
  return typeof value === "string" && value in LANGUAGES;
}

/** The language of ours that the system's is nearest to. */
export function systemLanguage(): Language {
  const wanted = typeof navigator === "undefined" ? undefined : navigator.language;
  return wanted?.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
}

/** The one that `boot.js` said, which knows what was chosen last. */
function initial(): Language {
  const said = typeof document === "undefined" ? undefined : document.documentElement.lang;
  return isLanguage(said) ? said : systemLanguage();
}

class Locale {
  current = $state<Language>(initial());

  set(language: Language): void {
    this.current = language;
    if (typeof document !== "undefined") document.documentElement.lang = language;
  }
}

export const locale = new Locale();

/** Something that is made once for each key: a browser takes long to make what knows a language's ways. */
export function keyed<K, V>(make: (key: K) => V): (key: K) => V {
  const made = new Map<K, V>();
  return (key) => {
    const there = made.get(key);
    if (there !== undefined) return there;
    const value = make(key);
    made.set(key, value);
    return value;
  };
}

const plurals = keyed((language: Language) => new Intl.PluralRules(language));
const numbers = keyed((language: Language) => keyed((digits: number) => new Intl.NumberFormat(language, { maximumFractionDigits: digits, minimumFractionDigits: 0 })));

export type Params = Record<string, string | number>;

/** Puts values into a text: `{name}`, and `{count|chat|chats}`, which picks by the language's plural of `count`. */
export function fill(text: string, params: Params, language: Language): string {
  return text.replace(/\{(\w+)(?:\|([^|{}]*)\|([^{}]*))?\}/g, (whole, name: string, one?: string, other?: string) => {
    const value = params[name];
    if (value === undefined) return whole;
    if (one === undefined || other === undefined) return typeof value === "number" ? number(value) : value;
    return plurals(language).select(Number(value)) === "one" ? one : other;
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
  return numbers(locale.current)(digits).format(value);
}
