/**
 * @file Packs what a ledger knows of the requests that wait outside.
 *
 * Cost: O(lobbies + credits + news). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { JOB_CLASSES, type JobClass } from "../../domain/job/job.ts";
import type { FirstByClass } from "../../domain/lease/lobby.ts";
import { jobId, runId, tenantId } from "../../domain/values/ids.ts";
import { longId, shortId } from "../../lib/short-uuid.ts";
import { entry } from "./codec-values.ts";
import type { Credit, Intake, LobbyAccount, OutsideRow } from "./intake.ts";

export interface IntakeRows {
  readonly nextCredit: number;
  readonly lookAtMs: number;
  readonly era?: number;
  readonly lobbies: readonly LobbyPart[];
  readonly news: readonly NewsPart[];
  readonly returning: readonly (readonly [job: string, run: string, endedAtMs: number])[];
}

type LobbyPart = readonly [
  tenant: string,
  report: number,
  /** By class, in the order of `JOB_CLASSES`. */
  waiting: readonly number[],
  deficit: number,
  /** Four numbers a credit: number, class, when it was given, whether it was told. */
  credits: readonly number[],
  /** Two numbers a class, in the order of `JOB_CLASSES`: round and count, or -1 and 0 where nobody waits. */
  first?: readonly number[],
];

type NewsPart = readonly [
  lobby: string,
  job: string,
  run: string,
  seq: number,
  jobClass: number,
  priority: number,
  submittedAtMs: number,
  gpus: number,
  round: number,
  requestedAtMs?: number,
];

export const packIntake = (intake: Intake): IntakeRows => ({
  nextCredit: intake.nextCredit,
  lookAtMs: intake.lookAtMs,
  ...(intake.era !== undefined && { era: intake.era }),
  lobbies: [...intake.lobbies].map(([tenant, account]) => [tenant, ...packLobby(account)]),
  news: [...intake.news.values()].map(packNews),
  returning: [...intake.returning].map(([job, ended]) => [
    job,
    shortId(ended.runId),
    ended.endedAtMs,
  ]),
});

type PackedAccount = LobbyPart extends readonly [string, ...infer Rest] ? Rest : never;

function packLobby(account: LobbyAccount): PackedAccount {
  const { report, waiting, deficit, credits, first } = account;
  const packed = [
    report,
    JOB_CLASSES.map((name) => waiting[name]),
    deficit,
    [...credits].flatMap(([number, credit]) => [
      number,
      JOB_CLASSES.indexOf(credit.class),
      credit.givenAtMs,
      credit.isAnnounced ? 1 : 0,
    ]),
  ] as const;
  return first === undefined
    ? [...packed]
    : [
        ...packed,
        JOB_CLASSES.flatMap((name) => [first[name]?.round ?? -1, first[name]?.count ?? 0]),
      ];
}

function packNews(row: OutsideRow): NewsPart {
  const { lobby, jobId: job, seq, priority, submittedAtMs, gpus, round, requestedAtMs } = row;
  const jobClass = JOB_CLASSES.indexOf(row.class);
  const run = shortId(row.runId);
  const part = [lobby, job, run, seq, jobClass, priority, submittedAtMs, gpus, round] as const;
  return requestedAtMs === undefined ? part : [...part, requestedAtMs];
}

export const unpackIntake = (rows: IntakeRows): Intake => ({
  nextCredit: rows.nextCredit,
  lookAtMs: rows.lookAtMs,
  ...(rows.era !== undefined && { era: rows.era }),
  lobbies: new Map(rows.lobbies.map((part) => [tenantId(part[0]), unpackLobby(part)])),
  news: new Map(rows.news.map(unpackNews).map((row) => [row.jobId, row])),
  returning: new Map(
    rows.returning.map(([job, run, endedAtMs]) => [
      jobId(job),
      { runId: runId(longId(run)), endedAtMs },
    ]),
  ),
});

function unpackLobby([, report, waiting, deficit, flat, first]: LobbyPart): LobbyAccount {
  const credits = new Map<number, Credit>();
  for (let at = 0; at < flat.length; at += 4) {
    credits.set(entry(flat, at), {
      class: classAt(entry(flat, at + 1)),
      givenAtMs: entry(flat, at + 2),
      isAnnounced: flat[at + 3] === 1,
    });
  }
  const [inference = 0, interactive = 0, training = 0] = waiting;
  return {
    report,
    waiting: { inference, interactive, training },
    ...(first !== undefined && { first: firstOf(first) }),
    deficit,
    credits,
  };
}

const firstOf = (flat: readonly number[]): FirstByClass =>
  Object.fromEntries(
    JOB_CLASSES.flatMap((name, at) => {
      const [round, count] = [entry(flat, 2 * at), entry(flat, 2 * at + 1)];
      return round < 0 ? [] : [[name, { round, count }] as const];
    }),
  );

const unpackNews = ([
  lobby,
  job,
  run,
  seq,
  jobClass,
  priority,
  submittedAtMs,
  gpus,
  round,
  requestedAtMs,
]: NewsPart): OutsideRow => ({
  lobby: tenantId(lobby),
  jobId: jobId(job),
  runId: runId(longId(run)),
  seq,
  class: classAt(jobClass),
  priority,
  submittedAtMs,
  gpus,
  round,
  ...(requestedAtMs !== undefined && { requestedAtMs }),
});

const classAt = (index: number): JobClass => entry(JOB_CLASSES, index);
