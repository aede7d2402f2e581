/**
 * @file Words that no honest sender has sent: copies of former words that come late, words that cannot be true, and words that are too large to be read.
 *
 * A copy is one that a network may bring at any later time: senders ask again until they are heard, so any word may come twice. A broken word is a former one with a
 * value of another type in one place, so it says nothing that is true by chance.
 */

import type { Server, Signal } from "./temporal/server.ts";
import type { Fault } from "./settings.ts";

type Words = Extract<Fault, { readonly kind: "words" }>;

/** So many of the last words to a run may come again. */
const REMEMBERED = 60;
const MOST_OUTLIVED = 6;
/** More than any fleet reads of one word. */
const HUGE_CHARACTERS = 1_100_000;
/** `null` is not among them: it says that a value is absent, which may be false and is never impossible. */
const STRANGE: readonly unknown[] = [{}, [[]], -1e300, "\u0000", true];

/** To the fleet half of the time, otherwise to a job, a lobby or a presence. */
export function sendStrange(server: Server, fleet: string, { how, count, target }: Words): void {
  const others = ["job", "lobby", "presence"].map((kind) => {
    const ids = server.openIds(kind);
    return ids[target % Math.max(1, ids.length)];
  });
  const id = [fleet, fleet, fleet, ...others][target % 6];
  const run = id === undefined ? undefined : server.openRun(id);
  if (id === undefined || run === undefined) return;
  const all = run.signals();
  const words = [...outlived(all), ...all.slice(-REMEMBERED)];
  server.kernel.tell("a stranger", id, () => `${how}: ${count} words`);
  if (how === "huge") return void server.signal(id, hugeWord(words[0]?.name ?? "inbox"));
  for (let at = 0; at < count; at += 1) {
    const word = words[(target + at * 7) % Math.max(1, words.length)];
    if (word === undefined) return;
    const { name, payload } = word;
    const isBroken = how === "broken";
    server.signal(id, isBroken ? { name, payload: broken(payload, target + at), isBroken } : word);
  }
  if (how === "broken") server.signal(id, { name: "no such word", payload: { target } });
}

/** Ends of requests after which the same job has asked again: the last of them. */
function outlived(words: readonly Signal[]): readonly Signal[] {
  const asking = new Set<unknown>();
  const found: Signal[] = [];
  for (const word of [...words].reverse())
    for (const entry of entriesOf(word)) {
      if (entry.kind === "request") asking.add(entry.request?.jobId);
      if (entry.kind === "end" && entry.lease === undefined && asking.has(entry.jobId))
        found.push(word);
    }
  return found.slice(0, MOST_OUTLIVED);
}

interface Said {
  readonly kind?: unknown;
  readonly jobId?: unknown;
  readonly lease?: unknown;
  readonly request?: { readonly jobId?: unknown };
}

const entriesOf = ({ payload }: Signal): readonly Said[] =>
  Array.isArray(payload) ? (payload as readonly Said[]).filter((each) => each !== null) : []; // of an inbox

const hugeWord = (name: string) => ({ name, payload: [{ kind: "end".padEnd(HUGE_CHARACTERS) }] });

/** With another value in one place, which the number chooses. */
function broken(value: unknown, by: number): unknown {
  if (typeof value !== "object" || value === null) return STRANGE[by % STRANGE.length];
  if (Array.isArray(value)) {
    const at = by % Math.max(1, value.length);
    return value.map((each: unknown, index) => (index === at ? broken(each, by) : each));
  }
  const names = Object.keys(value).sort();
  const name = names[by % Math.max(1, names.length)];
  if (name === undefined) return STRANGE[by % STRANGE.length];
  const fields = value as Readonly<Record<string, unknown>>; // a map
  return { ...fields, [name]: broken(fields[name], Math.floor(by / names.length)) };
}
