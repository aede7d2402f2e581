/**
 * @file A host's operating system in memory: files that can fail or be cut off at any step, processes, and a clock that tests move.
 *
 * What one `FakeMachine` holds outlives the programs on it: give two agents the same machine to restart one, and `reboot` it in between to
 * lose every process.
 */

import { dirname } from "node:path";
import type { Clock } from "../../agent/ports/clock.ts";
import type { FileFact, Files } from "../../agent/ports/files.ts";
import type {
  Processes,
  ProcessEnd,
  ProcessIdentity,
  ProcessStat,
  StartOrder,
} from "../../agent/ports/processes.ts";
import type { Groups } from "../../agent/ports/groups.ts";
import type { System } from "../../agent/ports/system.ts";

/** A step of the file system that changes something; `path` is the one that it changes. */
export interface FileStep {
  readonly kind:
    "write" | "overwrite" | "append" | "rename" | "link" | "remove" | "makeFolder" | "sync";
  readonly path: string;
}

/** `cut`: a part of the bytes is written, then the program dies. A code: the step fails with it. */
export type FileFault = "cut" | "ENOSPC" | "EIO";

/** The program was killed in the middle of a step. */
export class Killed extends Error {}

export interface FakeProcess extends ProcessStat {
  readonly order: StartOrder;
  /** Ends it, as if by itself. */
  end(end: ProcessEnd): void;
}

interface File {
  bytes: Buffer;
  mtimeMs: number;
}

export class FakeMachine {
  /** Time since the boot and the wall clock, moved by `pass`. */
  uptimeMs = 1_000_000;
  wallMs = 1_700_000_000_000;
  freeBytes = 2 ** 40;
  /** Asked before each step that changes a file; undefined lets it pass. */
  faultOf: (step: FileStep) => FileFault | undefined = () => undefined;
  /** What a started process does when it gets a signal; by default it ends of it. */
  onSignal: (process: FakeProcess, signal: string) => void = (process, signal) =>
    process.end({ signal });
  /** Called when a process starts, before the starter goes on. */
  onStart: (process: FakeProcess) => void = () => undefined;
  readonly running = new Map<number, FakeProcess>();
  readonly groupPaths = new Set<string>();
  private readonly contents = new Map<string, File>();
  private readonly folders = new Set<string>(["/"]);
  private readonly watchers = new Set<{ readonly dir: string; readonly call: () => void }>();
  private readonly timers = new Set<{ atMs: number; readonly call: () => void }>();
  private boots = 1;
  private count = 100;

  /** Moves the clocks and runs every timer on the way in its order; whatever waits for one goes on before the next. */
  async pass(forMs: number): Promise<void> {
    const untilMs = this.uptimeMs + forMs;
    await settled();
    for (;;) {
      const [next] = [...this.timers].sort((a, b) => a.atMs - b.atMs);
      if (next === undefined || next.atMs > untilMs) break;
      this.timers.delete(next);
      this.advanceTo(next.atMs);
      next.call();
      await settled();
    }
    this.advanceTo(untilMs);
  }

  /** Lets the clocks run until the promise is settled; fails after `mostMs` of them. */
  async until<T>(promise: Promise<T>, mostMs = 3_600_000): Promise<T> {
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    promise.then(over, over);
    const untilMs = this.uptimeMs + mostMs;
    for (await settled(); !isOver; await this.pass(10)) {
      if (this.uptimeMs > untilMs) throw new Error(`not within ${mostMs} ms of the fake clock`);
    }
    return promise;
  }

  /** Ends every process and starts the clock anew; files stay. */
  reboot(): void {
    this.boots += 1;
    this.uptimeMs = 5_000;
    this.running.clear();
    this.timers.clear();
    this.watchers.clear();
  }

  /** The system as one program on this machine sees it; its processes are the program's children. */
  system(): System {
    this.count += 1;
    return this.systemOf(this.count);
  }

  /** The system as a started process sees it: its own identity is that of the process. */
  systemOf(pid: number): System {
    return {
      files: this.files(pid),
      processes: this.processes(pid),
      groups: this.groups,
      clock: this.clock(),
      freePort: () => Promise.resolve(40_000 + (this.count += 1)),
      randomHex: (byteCount) => "ab".repeat(byteCount),
    };
  }

  text(path: string): string | undefined {
    return this.contents.get(path)?.bytes.toString("utf8");
  }

  /** A group holds the running processes that joined it. */
  private readonly groups: Groups = {
    make: (path) => {
      this.groupPaths.add(path);
    },
    limitPids: () => undefined,
    limitMemory: () => undefined,
    weighCpus: () => undefined,
    denyDevices: () => undefined,
    memoryUse: () => undefined,
    pids: (path) =>
      [...this.running.values()].flatMap(({ pid, order }) =>
        order.joins?.includes(path) === true ? [pid] : [],
      ),
    below: (path) => [
      ...new Set(
        [...this.groupPaths].flatMap((each) =>
          each.startsWith(`${path}/`) ? [each.slice(path.length + 1).split("/")[0] ?? ""] : [],
        ),
      ),
    ],
    kill: (path) => {
      for (const pid of this.groups.pids(path)) this.running.get(pid)?.end({ signal: "SIGKILL" });
    },
    remove: (path) => {
      if (this.groups.pids(path).length === 0) this.groupPaths.delete(path);
      return !this.groupPaths.has(path);
    },
    removeEmpty: (path) => {
      if (this.groups.below(path).length === 0) this.groups.remove(path);
    },
  };

  private advanceTo(atMs: number): void {
    this.wallMs += atMs - this.uptimeMs;
    this.uptimeMs = atMs;
  }

  private clock(): Clock {
    const after = (forMs: number, call: () => void): (() => void) => {
      const timer = { atMs: this.uptimeMs + Math.max(0, forMs), call };
      this.timers.add(timer);
      return () => this.timers.delete(timer);
    };
    return {
      sinceBootMs: () => this.uptimeMs,
      elapsedMs: () => this.uptimeMs,
      nowMs: () => this.wallMs,
      pause: (forMs, signal) =>
        new Promise((resolve) => {
          if (signal?.aborted === true) {
            resolve();
            return;
          }
          const done = (): void => {
            cancel();
            signal?.removeEventListener("abort", done);
            resolve();
          };
          const cancel = after(forMs, done);
          signal?.addEventListener("abort", done, { once: true });
        }),
      deadline: (forMs) => {
        const over = new AbortController();
        after(forMs, () => over.abort());
        return over.signal;
      },
      after,
      every: (eachMs, call) => {
        const again = (): void => {
          cancel = after(eachMs, again);
          call();
        };
        let cancel = after(eachMs, again);
        return () => cancel();
      },
    };
  }

  private namesIn(dir: string): readonly string[] {
    const names = [...this.contents.keys(), ...this.folders].flatMap((path) =>
      path.startsWith(`${dir}/`) ? [path.slice(dir.length + 1).split("/")[0] ?? ""] : [],
    );
    return [...new Set(names)];
  }

  private files(writer: number): Files {
    let asides = 0;
    return {
      readText: (path) => this.text(path),
      readRange: (path, { position, length }) =>
        this.contents.get(path)?.bytes.subarray(position, position + length),
      readUntrusted: (path, rangeOf) => {
        const found = this.factOf(path);
        const range = found?.kind === "file" ? rangeOf(found) : undefined;
        return (
          range &&
          this.contents.get(path)?.bytes.subarray(range.position, range.position + range.length)
        );
      },
      write: (path, text) => this.put("write", path, Buffer.from(text)),
      writeDurably: async (path, text) => {
        await Promise.resolve();
        this.put("write", path, Buffer.from(text));
      },
      overwrite: (path, text) => {
        const known = this.existing(path);
        const bytes = Buffer.from(text);
        this.put("overwrite", path, Buffer.concat([bytes, known.bytes.subarray(bytes.length)]));
      },
      openAppender: (path) => {
        this.parentOf(path);
        if (!this.contents.has(path)) this.set(path, Buffer.alloc(0));
        return {
          write: (bytes) => {
            const before = this.contents.get(path)?.bytes ?? Buffer.alloc(0);
            this.put("append", path, Buffer.concat([before, bytes]), before.length);
            return bytes.length;
          },
          close: () => undefined,
        };
      },
      rename: (from, to) => {
        this.step({ kind: "rename", path: to });
        const { bytes } = this.existing(from);
        this.contents.delete(from);
        this.set(to, bytes);
      },
      link: (from, to) => {
        this.step({ kind: "link", path: to });
        if (this.contents.has(to)) throw failed("EEXIST", to);
        this.set(to, this.existing(from).bytes);
      },
      remove: (path) => {
        this.step({ kind: "remove", path });
        for (const each of [...this.contents.keys(), ...this.folders])
          if (each === path || each.startsWith(`${path}/`)) {
            this.contents.delete(each);
            this.folders.delete(each);
          }
      },
      list: (dir) => this.namesIn(dir),
      listOwned: (dir, _uid, choose) =>
        choose(this.namesIn(dir)).flatMap((name) => {
          const fact = this.factOf(`${dir}/${name}`);
          return fact === undefined ? [] : [{ name, fact }];
        }),
      stat: (path) => this.factOf(path),
      makeFolder: (path) => {
        this.step({ kind: "makeFolder", path });
        const isNew = !this.folders.has(path);
        for (let dir = path; !this.folders.has(dir); dir = dirname(dir)) this.folders.add(dir);
        return isNew;
      },
      syncFolder: async (dir) => {
        await Promise.resolve();
        this.step({ kind: "sync", path: dir });
      },
      realPath: (path) => path,
      freeBytes: () => this.freeBytes,
      watch: (dir, call) => {
        const watcher = { dir, call };
        this.watchers.add(watcher);
        return () => this.watchers.delete(watcher);
      },
      asideOf: (path) => `${path}.${writer}-${(asides += 1)}.tmp`,
    };
  }

  private processes(ownPid: number): Processes {
    const bootId = `boot-${this.boots}`;
    const own: ProcessIdentity = { bootId, pid: ownPid, started: "1" };
    const ownStat: ProcessStat = {
      pid: ownPid,
      ppid: 1,
      pgid: ownPid,
      sid: ownPid,
      started: "1",
      isZombie: false,
      name: "job",
    };
    const signalTo = (targets: readonly FakeProcess[], signal: string): string | undefined => {
      for (const target of targets) this.onSignal(target, signal);
      return targets.length === 0 ? "kill ESRCH" : undefined;
    };
    return {
      bootId: () => bootId,
      space: () => "pids",
      own: () => {
        const started = this.running.get(ownPid)?.started;
        return started === undefined ? own : { ...own, started };
      },
      stat: (pid) => (pid === ownPid ? (this.running.get(pid) ?? ownStat) : this.running.get(pid)),
      all: () => [...this.running.values()],
      marked: (mark, among) =>
        new Set(
          [...among.keys()].filter((pid) => {
            const [name = "", value] = mark.split("=");
            return this.running.get(pid)?.order.env[name] === value;
          }),
        ),
      single: undefined,
      signal: (pid, signal) =>
        signalTo(
          [...this.running.values()].filter((each) => each.pid === pid),
          signal,
        ),
      signalGroup: (pgid, signal) =>
        signalTo(
          [...this.running.values()].filter((each) => each.pgid === pgid),
          signal,
        ),
      start: (order) => this.start(order, ownPid),
      cpuMs: () => 0,
    };
  }

  private start(order: StartOrder, ppid: number): number {
    const pid = (this.count += 1);
    const started: FakeProcess = {
      pid,
      ppid,
      pgid: pid,
      sid: pid,
      started: String(this.uptimeMs),
      isZombie: false,
      name: "job",
      order,
      end: (end) => {
        if (!this.running.delete(pid)) return;
        queueMicrotask(() => {
          const { output } = order;
          if (typeof output !== "string") for (const name of OUTPUTS) output.onClosed(name);
          order.onEnd(end);
        });
      },
    };
    this.running.set(pid, started);
    this.onStart(started);
    return pid;
  }

  private step(step: FileStep): FileFault | undefined {
    const fault = this.faultOf(step);
    if (fault === "ENOSPC" || fault === "EIO") throw failed(fault, step.path);
    if (fault === "cut" && step.kind !== "write" && step.kind !== "append") throw new Killed();
    return fault;
  }

  private put(kind: "write" | "overwrite" | "append", path: string, bytes: Buffer, from = 0): void {
    this.parentOf(path);
    const fault = this.step({ kind, path });
    if (fault !== "cut") {
      this.set(path, bytes);
      return;
    }
    this.set(path, bytes.subarray(0, from + Math.floor((bytes.length - from) / 2)));
    throw new Killed();
  }

  private set(path: string, bytes: Buffer): void {
    this.contents.set(path, { bytes, mtimeMs: this.wallMs });
    for (const { dir, call } of [...this.watchers]) if (dirname(path) === dir) call();
  }

  private existing(path: string): File {
    const known = this.contents.get(path);
    if (known === undefined) throw failed("ENOENT", path);
    return known;
  }

  private parentOf(path: string): void {
    if (!this.folders.has(dirname(path))) throw failed("ENOENT", path);
  }

  private factOf(path: string): FileFact | undefined {
    const file = this.contents.get(path);
    if (file !== undefined)
      return { kind: "file", sizeBytes: file.bytes.length, mtimeMs: file.mtimeMs };
    return this.folders.has(path) ? { kind: "folder", sizeBytes: 0, mtimeMs: 0 } : undefined;
  }
}

const OUTPUTS = ["out", "err"] as const;

function failed(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}

/** Every promise that can go on without a timer has gone on. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
