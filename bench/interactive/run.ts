/**
 * @file `bench interactive`: keys at one terminal, bulk output and input in turns, then keys at many terminals in the same time.
 *
 * A key is typed when the one before is back and a pause is over, as a person types; the pause is drawn, so that it meets no timer's beat. What
 * comes back is checked, all of it. The bench's own client is one process, and shares the machine's processors with everything else.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { terminalTrouble } from "../../agent/sessions/terminal.ts";
import { atLeast, atMost, barOf, exactly, REPORTED, unmeasured } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";
import { drawFrom, quantile, spreadOf, type Draw } from "../statistics.ts";
import { inputRate, makeBulkFile, outputRate } from "./bytes.ts";
import { openInteractiveSite, type InteractiveSite } from "./site.ts";
import { openTerminal, type EchoTerminal } from "./terminal.ts";

const MOST_ECHO_MS = 30;
const LEAST_RATE = 20;
const LONGEST_PAUSE_MS = 20;
/** At many terminals: ten keys a second each, as fast as people type. */
const LONGEST_PAUSE_OF_MANY_MS = 200;
/** Sessions that are being opened at a time: the agent takes so many dials without hurrying them. */
const OPENERS = 16;
const LETTERS = "abcdefghijklmnopqrstuvwxyz";

const ECHO = { id: "echo-p50", unit: "ms", target: atMost(MOST_ECHO_MS) } as const;

export async function runInteractive(request: BenchRequest): Promise<BenchAnswer> {
  const trouble = terminalTrouble();
  if (trouble !== undefined) return { bars: [unmeasured(ECHO, trouble)] };
  request.say("starting a server, workers, an agent, a submit service and a job");
  const site = await openInteractiveSite(request);
  try {
    const draw = drawFrom(request.seed);
    const echoMs = await oneTerminal(site, request.size("keys"), draw);
    request.say(`keys: ${quantile(echoMs, 0.5).toFixed(1)} ms`);
    const rates = await bulk(site, request);
    const many = await manyTerminals(site, request, draw);
    return answerOf(request, { echoMs, ...rates, many });
  } finally {
    await site.world.stop();
  }
}

interface Measured {
  readonly echoMs: readonly number[];
  /** Millions of bytes a second, of each round. */
  readonly output: readonly number[];
  readonly input: readonly number[];
  readonly many: ManyEchoes;
}

function answerOf(request: BenchRequest, { echoMs, output, input, many }: Measured): BenchAnswer {
  const sessions = request.size("sessions");
  const size = `${String(request.size("megabytes"))} MB, median of ${String(output.length)}`;
  const note = `${String(echoMs.length)} keys, one at a time, to a program at a terminal and back`;
  const keys = `${String(many.echoMs.length)} keys, ten a second at each of them in the same time`;
  return {
    bars: [
      barOf({ ...ECHO, got: quantile(echoMs, 0.5), note }),
      barOf({ id: "echo-p99", unit: "ms", target: REPORTED, got: quantile(echoMs, 0.99) }),
      ...[
        { id: "output-rate", rates: output },
        { id: "input-rate", rates: input },
      ].map(({ id, rates }) =>
        barOf({
          ...{ id, unit: "MB/s", target: atLeast(LEAST_RATE) },
          got: quantile(rates, 0.5),
          note: `${size}, bytes compared by their hash`,
        }),
      ),
      barOf({
        ...{ id: "sessions-at-once", unit: "", target: exactly(sessions) },
        got: many.right,
        note: `open together, every key of each came back; opened in ${(many.openedMs / 1_000).toFixed(1)} s`,
      }),
      barOf({
        ...{ id: "sessions-echo-p50", unit: "ms", target: atMost(MOST_ECHO_MS) },
        got: quantile(many.echoMs, 0.5),
        note: keys,
      }),
      barOf({
        ...{ id: "sessions-echo-p99", unit: "ms", target: REPORTED },
        got: quantile(many.echoMs, 0.99),
      }),
    ],
    details: {
      echoMs: spreadOf(echoMs),
      ...{ outputRates: output, inputRates: input },
      sessionsEchoMs: spreadOf(many.echoMs),
    },
  };
}

async function oneTerminal(site: InteractiveSite, keys: number, draw: Draw): Promise<number[]> {
  const terminal = await openTerminal(site);
  try {
    return await typeKeys(terminal, { keys, longestPauseMs: LONGEST_PAUSE_MS, draw });
  } finally {
    await terminal.close();
  }
}

interface Typing {
  readonly keys: number;
  readonly longestPauseMs: number;
  readonly draw: Draw;
}

async function typeKeys(
  terminal: EchoTerminal,
  { keys, longestPauseMs, draw }: Typing,
): Promise<number[]> {
  const times: number[] = [];
  for (let at = 0; at < keys; at += 1) {
    await sleep(draw.unit() * longestPauseMs);
    times.push(await terminal.type(LETTERS[draw.below(LETTERS.length)] ?? "a"));
  }
  return times;
}

async function bulk(
  site: InteractiveSite,
  request: BenchRequest,
): Promise<Pick<Measured, "output" | "input">> {
  const file = await makeBulkFile(site, {
    megabytes: request.size("megabytes"),
    seed: request.seed,
  });
  const output: number[] = [];
  const input: number[] = [];
  for (let round = 0; round < request.size("rounds"); round += 1) {
    site.world.check();
    output.push(await outputRate(site, file));
    input.push(await inputRate(site, file));
    request.say(
      `bytes: ${output.at(-1)?.toFixed(0) ?? ""} MB/s out, ${input.at(-1)?.toFixed(0) ?? ""} MB/s in`,
    );
  }
  return { output, input };
}

interface ManyEchoes {
  /** Sessions of which every key came back while all were open. */
  readonly right: number;
  readonly echoMs: readonly number[];
  /** From the first to be opened to the last that was open. */
  readonly openedMs: number;
}

async function manyTerminals(
  site: InteractiveSite,
  request: BenchRequest,
  draw: Draw,
): Promise<ManyEchoes> {
  const count = request.size("sessions");
  const terminals: EchoTerminal[] = [];
  const startedMs = performance.now();
  let next = 0;
  const opener = async (): Promise<void> => {
    while (next < count) {
      next += 1;
      site.world.check();
      terminals.push(await openTerminal(site));
    }
  };
  try {
    const openers = await Promise.allSettled(Array.from({ length: OPENERS }, opener));
    for (const each of openers) if (each.status === "rejected") request.say(String(each.reason));
    const openedMs = performance.now() - startedMs;
    request.say(`sessions: ${String(terminals.length)} are open`);
    const typing = {
      ...{ keys: request.size("session-keys"), draw },
      longestPauseMs: LONGEST_PAUSE_OF_MANY_MS,
    };
    const typed = await Promise.allSettled(terminals.map((terminal) => typeKeys(terminal, typing)));
    for (const each of typed) if (each.status === "rejected") request.say(String(each.reason));
    const right = typed.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    return { right: right.length, echoMs: right.flat(), openedMs };
  } finally {
    await Promise.all(terminals.map(({ close }) => close()));
  }
}
