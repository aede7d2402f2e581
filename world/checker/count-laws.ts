/**
 * @file What a lobby must count: all of whom it was told, in whichever of its runs, and who have neither left nor been called since. One that goes on for a run that was ended by
 * hand tells its fleet nothing before it has heard them.
 *
 * Cost: O(rows) for a word to a lobby, and for each report.
 */

import type { TenantId } from "../../domain/values/ids.ts";
import { isFields, type Fields } from "../../lib/fields.ts";
import { lobbyWorkflowId } from "../../protocol/names.ts";
import { placeOf, type Asked, type LobbyWord } from "./prompt-laws.ts";

export interface CountLaws {
  readonly lobbyTold: (lobby: string, word: LobbyWord) => void;
  readonly called: (lobby: string, call: Asked) => void;
  readonly fleetTold: (entries: unknown) => void;
}

/** The server's clock may jump back between two words. */
const CLOCK_JUMPS_MS = 10_000;

interface Row {
  readonly seq: number;
  readonly atMs: number;
}

export function createCountLaws(violate: (law: string, message: string) => void): CountLaws {
  /** By lobby, then by job and run: who waits there, and since when. */
  const waiting = new Map<string, Map<string, Row>>();
  const left = new Map<string, number>();

  function judge({ tenant, report, waiting: counted }: Fields): void {
    if (typeof report !== "number" || !isFields(counted)) return;
    const counts: readonly unknown[] = Object.values(counted);
    // What a stranger has torn no lobby has said.
    if (!counts.every((count) => Number.isSafeInteger(count) && Number(count) >= 0)) return;
    const lobby = lobbyWorkflowId("default", String(tenant) as TenantId); // of the word
    const known = [...(waiting.get(lobby)?.values() ?? [])];
    const least = known.filter(({ atMs }) => atMs + CLOCK_JUMPS_MS < report).length;
    const told = counts.reduce<number>((sum, each) => sum + Number(each), 0);
    if (told < least)
      violate("lobbies count who waits", `${lobby} counts ${told}, and was told of ${least}`);
  }

  return {
    lobbyTold: (lobby, { name, payload, atMs }) => {
      const known = waiting.get(lobby) ?? new Map<string, Row>();
      waiting.set(lobby, known);
      const word = (payload ?? {}) as Partial<Asked> & { readonly rows?: readonly Asked[] };
      if (name === "lobby-leave" && word.seq !== undefined) {
        const place = placeOf(lobby, word);
        left.set(place, Math.max(word.seq, left.get(place) ?? 0));
        if ((known.get(place)?.seq ?? Infinity) <= word.seq) known.delete(place);
      }
      for (const row of (name === "lobby-news" && word.rows) || []) {
        // A stranger's copy that was torn: nobody's row.
        if (typeof row.jobId !== "string" || typeof row.runId !== "string") continue;
        const place = placeOf(lobby, row);
        const isNews = row.seq > Math.max(left.get(place) ?? 0, known.get(place)?.seq ?? 0);
        if (isNews) known.set(place, { seq: row.seq, atMs });
      }
    },
    called: (lobby, call) => void waiting.get(lobby)?.delete(placeOf(lobby, call)),
    fleetTold: (entries) => {
      if (!Array.isArray(entries)) return;
      for (const entry of entries as readonly unknown[])
        if (isFields(entry) && entry["kind"] === "lobby") judge(entry);
    },
  };
}
