/**
 * @file Runs a command beside a rank, as the rank's processes run: in its container, as its user, in its folder, with its environment, so with its GPUs alone.
 *
 * It is one more process of the launch: it ends with the job at the latest, and a job does not wait for it. Killed with its process group. The agent holds
 * its pipes, so it ends with the agent; the job does not.
 */

import { spawn, type ChildProcess } from "node:child_process";
import type { Readable } from "node:stream";
import {
  SESSION_SIGNALS,
  type SessionStart,
  type TerminalSize,
} from "../../protocol/session-contract.ts";
import { CHANNEL } from "../../streams/words.ts";
import { groupsOf, readContainer } from "../containment/container.ts";
import type { LaunchPlan, RankPlan } from "../folder/launch-files.ts";
import type { Launch } from "../runs/local-run.ts";
import { execTrouble, withExecStep } from "../system/exec-step.ts";
import type { SessionPart, SessionVoice } from "./session-end.ts";
import { atTerminal, resize, terminalEnv, terminalTrouble } from "./terminal.ts";

export interface ExecPlace {
  readonly launch: Launch;
  readonly plan: LaunchPlan;
  readonly rank: RankPlan;
}

/** Output that a process of the background holds open is not waited for. */
const DRAIN_MS = 500;
const HANG_UP_MS = 3_000;
const RESIZE_EVERY_MS = 100;
const NOT_EXECUTED = 126;
const NOT_FOUND = 127;

export function execPart(place: ExecPlace, start: SessionStart, voice: SessionVoice): SessionPart {
  const { launch, plan, rank } = place;
  const { command = [], terminal } = start;
  const env = { ...rank.env, ...(terminal !== undefined && terminalEnv(terminal)) };
  const trouble =
    plan.asUser === undefined && plan.image === undefined
      ? execTrouble(command[0] ?? "", { cwd: plan.cwd, path: env["PATH"] })
      : undefined;
  if (trouble !== undefined) {
    const isThere = trouble.code !== "ENOENT";
    const said = `${command[0] ?? ""}: ${isThere ? "may not be executed" : "command not found"}`;
    voice.write(CHANNEL.errors, Buffer.from(`orbweaver: ${said}\n`));
    return ended(voice, { exitCode: isThere ? NOT_EXECUTED : NOT_FOUND });
  }
  const noTerminal = terminal === undefined ? undefined : terminalTrouble();
  if (noTerminal !== undefined) {
    voice.write(CHANNEL.errors, Buffer.from(`orbweaver: ${noTerminal}\n`));
    return ended(voice, { exitCode: NOT_EXECUTED });
  }
  const groups = groupsOf(readContainer(launch.system.files, launch.files));
  const inside = [...(plan.image?.words ?? []), ...command];
  const program = terminal === undefined ? inside : atTerminal(inside, terminal);
  const words = [...(plan.asUser ?? []), ...program];
  const [file = "", ...args] = withExecStep(groups, words);
  const child = spawn(file, args, {
    cwd: plan.cwd,
    env,
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  return running(child, voice, terminal !== undefined);
}

function running(child: ChildProcess, voice: SessionVoice, hasTerminal: boolean): SessionPart {
  let isOver = false;
  let end: object | undefined;
  let drain: NodeJS.Timeout | undefined;
  const outputs = new Map<number, Readable | null>([
    [CHANNEL.output, child.stdout],
    [CHANNEL.errors, child.stderr],
  ]);
  const finish = (exit: object): void => {
    if (isOver) return;
    isOver = true;
    clearTimeout(drain);
    for (const stream of outputs.values()) stream?.destroy();
    sayEnd(voice, exit);
  };
  /** Again and again, while output that was held back by the client still comes. */
  const finishWhenQuiet = (): void => {
    if (end === undefined) return;
    clearTimeout(drain);
    const exit = end;
    drain = setTimeout(() => {
      if ([...outputs.values()].some((stream) => stream?.isPaused() === true)) finishWhenQuiet();
      else finish(exit);
    }, DRAIN_MS);
  };
  for (const [channel, stream] of outputs) {
    stream?.on("data", (bytes: Buffer) => {
      if (!voice.write(channel, bytes)) stream.pause();
      finishWhenQuiet();
    });
    stream?.on("error", () => undefined);
  }
  child.stdin?.on("error", () => undefined);
  child.once("error", (error) => {
    if (end === undefined && child.pid === undefined) {
      voice.write(CHANNEL.errors, Buffer.from(`orbweaver: ${error.message}\n`));
      finish({ exitCode: NOT_FOUND });
    }
  });
  child.once("exit", (code, signal) => {
    end = signal === null ? { exitCode: code ?? 0 } : { signal };
    finishWhenQuiet();
  });
  child.once("close", () => finish(end ?? { exitCode: 1 }));
  let newest: TerminalSize | undefined;
  let pause: NodeJS.Timeout | undefined;
  /** At once, then the newest size alone, a few times a second: each is a question to the kernel and a program. */
  const follow = (size: TerminalSize): void => {
    newest = size;
    if (pause !== undefined || end !== undefined || child.pid === undefined) return;
    resize(child.pid, size);
    pause = setTimeout(() => {
      pause = undefined;
      if (newest !== undefined && newest !== size) follow(newest);
    }, RESIZE_EVERY_MS);
  };
  /** Not once the command has ended: its number may be another group's by then. */
  const kill = (signal: NodeJS.Signals): void => {
    if (end !== undefined) return;
    killGroup(signal);
  };
  const killGroup = (signal: NodeJS.Signals): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, signal);
    } catch {
      // The group has ended.
    }
  };
  return {
    onWord(word) {
      const { signal, size } = word as Readonly<Record<string, unknown>>;
      const name = SESSION_SIGNALS.find((known) => known === signal);
      if (hasTerminal && isSize(size)) follow(size);
      if (name !== undefined) kill(`SIG${name}`);
    },
    onData(channel, bytes, taken) {
      if (channel !== CHANNEL.input || child.stdin?.writable !== true) return taken();
      child.stdin.write(bytes, () => taken());
    },
    onEnd(channel) {
      if (channel === CHANNEL.input) child.stdin?.end();
    },
    onRoom: (channel) => {
      outputs.get(channel)?.resume();
    },
    hangUp() {
      if (end !== undefined) return;
      kill("SIGHUP");
      const late = setTimeout(() => kill("SIGKILL"), HANG_UP_MS);
      child.once("exit", () => {
        clearTimeout(late);
        // At once, so what is left of its group still has its number.
        killGroup("SIGKILL");
      });
    },
  };
}

function isSize(size: unknown): size is TerminalSize {
  const { rows, columns } = (size ?? {}) as Readonly<Record<string, unknown>>;
  return [rows, columns].every((side) => Number.isInteger(side) && Number(side) > 0);
}

function sayEnd(voice: SessionVoice, exit: object): void {
  voice.say({ exit });
  for (const channel of [CHANNEL.output, CHANNEL.errors, CHANNEL.words]) voice.end(channel);
}

function ended(voice: SessionVoice, exit: object): SessionPart {
  sayEnd(voice, exit);
  return {
    ...{ onWord: () => undefined, onEnd: () => undefined, onRoom: () => undefined },
    ...{ onData: (_channel, _bytes, taken) => taken(), hangUp: () => undefined },
  };
}
