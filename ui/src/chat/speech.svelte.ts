// Reads an answer aloud by a voice of the system, one answer at a time.
import { locale } from "../i18n";
import { languageOf, parts, voiceFor } from "./speechText";

class Speech {
  /** Id of the message that is being read. */
  reading = $state<string | undefined>(undefined);
  #voices = $state.raw<readonly SpeechSynthesisVoice[]>([]);
  /** Utterances that are not collected before their end, as Chromium would do. */
  #kept: SpeechSynthesisUtterance[] = [];

  constructor() {
    const engine = this.#engine;
    if (engine === undefined) return;
    // The list can be empty at first.
    const look = (): void => {
      this.#voices = engine.getVoices();
    };
    engine.addEventListener?.("voiceschanged", look);
    look();
  }

  /** Absent without speech, for example in WebKitGTK. */
  get #engine(): SpeechSynthesis | undefined {
    return typeof window === "undefined" ? undefined : window.speechSynthesis;
  }

  /** Whether this machine has a voice. */
  get available(): boolean {
    return this.#voices.some((voice) => voice.localService);
  }

  /** Reads a message, or stops if it is being read. */
  toggle(message: string, markdown: string): void {
    const wasReading = this.reading === message;
    this.stop();
    if (!wasReading) this.#read(message, markdown);
  }

  stop(): void {
    if (this.reading === undefined) return;
    this.reading = undefined;
    this.#kept = [];
    this.#engine?.cancel();
  }

  #read(message: string, markdown: string): void {
    const engine = this.#engine;
    const texts = parts(markdown);
    if (engine === undefined || texts.length === 0) return;
    const language = languageOf(texts.join(" "), locale.current.split("-")[0] ?? "en");
    const voice = voiceFor(this.#voices, language, navigator.languages);
    if (voice === undefined) return;
    this.reading = message;
    const utterances = texts.map((text) => Object.assign(new SpeechSynthesisUtterance(text), { voice, lang: voice.lang }));
    const end = (): void => {
      if (this.#kept === utterances) this.stop();
    };
    utterances.at(-1)?.addEventListener("end", end);
    for (const utterance of utterances) utterance.addEventListener("error", end);
    this.#kept = utterances;
    for (const utterance of utterances) engine.speak(utterance);
  }
}

export const speech = new Speech();
