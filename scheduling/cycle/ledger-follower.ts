/**
 * @file A decider that keeps a fleet's ledger and follows the fleet's own by the chain of its events (event-chain.ts).
 *
 * Feeding is idempotent: the links that it has folded are recognised by their hashes, and only the later ones are folded. Where the chain does
 * not pass its own hash it has other events behind it, and the answer is that it is stale; so it is when the figures of its ledger differ from
 * the fleet's. It never decides on a ledger that is not the fleet's. Cost: O(links) a feeding, and O(changes) of those that are new.
 */

import type { Plan } from "../../domain/lease/plan.ts";
import { figuresOf, hashAfter, type ChainLink, type LedgerFigures } from "../ledger/event-chain.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { openSession, type Session, type SessionOptions } from "./live-scheduler.ts";

export interface Follower {
  readonly session: Pick<Session, "ledger" | "decide">;
  /** The hash that it has reached; it ends with the first feeding that it cannot follow. */
  readonly hash: () => string;
  readonly follow: (way: Way) => Followed;
}

/** The part of a chain that may lead from the follower's ledger to the fleet's. */
export interface Way {
  readonly rules: number;
  readonly since: string;
  readonly links: readonly string[];
  readonly hash: string;
  readonly figures: LedgerFigures;
  /** The plan of an answer; undefined when it is not known any more. */
  readonly planOf: (answer: string) => Plan | undefined;
}

export type Followed = "followed" | "other" | "unequal";

/** `hash`: that of the chain when the ledger was this one. */
export function openFollower(ledger: Ledger, hash: string, options: SessionOptions = {}): Follower {
  const session = openSession(ledger, options);
  let reached = hash;
  return { session, hash: () => reached, follow };

  function follow({ rules, since, links, hash: wanted, figures, planOf }: Way): Followed {
    if (rules !== session.ledger.applyVersion) return "other";
    const hashes = [since];
    for (const link of links) hashes.push(hashAfter(hashes.at(-1) ?? since, link));
    const from = hashes.lastIndexOf(reached);
    if (from < 0 || hashes.at(-1) !== wanted) return "other";
    for (const link of links.slice(from)) if (!foldLink(link, planOf)) return "other";
    if (String(figuresOf(session.ledger)) !== String(figures)) return "unequal";
    reached = wanted;
    return "followed";
  }

  /** False when the link names a plan that is not known. */
  function foldLink(text: string, planOf: Way["planOf"]): boolean {
    const link = JSON.parse(text) as ChainLink; // written by `extendChain`, as the hash says
    if (link.kind === "run") return true;
    if (link.kind !== "plan-of") {
      session.apply(link);
      return true;
    }
    const plan = planOf(link.answer);
    if (plan !== undefined) session.apply({ kind: "plan", plan, nowMs: link.nowMs });
    return plan !== undefined;
  }
}
