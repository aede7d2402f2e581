/**
 * @file The processes of a host as the agent's logic sees them.
 *
 * A process is known by boot id, pid and start time, so that a later process with the same pid is not mistaken for it. A zombie counts as
 * ended: it runs nothing, although signal 0 still reaches it.
 */

export interface ProcessIdentity {
  readonly bootId: string;
  readonly pid: number;
  /** Opaque; equal for two looks at the same process. */
  readonly started: string;
}

export interface ProcessStat {
  readonly pid: number;
  readonly ppid: number;
  readonly pgid: number;
  /** The session; equal to `pgid` where the platform does not say. */
  readonly sid: number;
  readonly started: string;
  readonly isZombie: boolean;
  /** Of its program, as the kernel cuts it: at most 15 characters on Linux. */
  readonly name: string;
}

export type ProcessEnd = { readonly exitCode: number } | { readonly signal: string };

export interface StartOrder {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A file to which output is appended, or the reader of its pieces. */
  readonly output: string | OutputReader;
  /** What the process can read; by default it has no input. */
  readonly input?: string;
  /**
   * Groups that the process joins before it runs its program (`groups.ts`). Present, also when empty, for the processes of a job: these are the
   * first to go when the machine runs out of memory.
   */
  readonly joins?: readonly string[];
  /** The caller may end while the process runs on. */
  readonly isLeftBehind?: boolean;
  /** Called once. Not called for a process that could not be started. */
  onEnd(end: ProcessEnd): void;
  /** Called once, instead of `onEnd`, when the system could not start it; `code` is the system's (`ENOENT`, `EACCES`, …). */
  onNotStarted(error: Error & { readonly code?: string }): void;
}

export type OutputName = "out" | "err";

export interface OutputReader {
  onOutput(name: OutputName, bytes: Buffer): void;
  /** Nothing more will come; called once for each of the two. A daemon may hold the stream open after the process has ended. */
  onClosed(name: OutputName): void;
}

export interface Processes {
  /** Changes with every start of the machine. */
  bootId(): string;
  /** The space in which our pids count: of a process of another one nobody here can say whether it runs. */
  space(): string;
  own(): ProcessIdentity;
  stat(pid: number): ProcessStat | undefined;
  /** Every process of the machine, zombies included; those known to be older than `notBefore` may be left out. */
  all(notBefore?: ProcessIdentity): readonly ProcessStat[];
  /** Of these processes those whose environment holds `mark` (`NAME=value`). None that started before `notBefore` can have it. */
  marked(
    mark: string,
    among: ReadonlyMap<number, ProcessStat>,
    notBefore: ProcessIdentity | undefined,
  ): ReadonlySet<number>;
  /** Present where one process can be looked at cheaply (Linux); elsewhere every look asks for all. */
  readonly single: SingleLook | undefined;
  /** Undefined when the signal was sent; else the system's message, for example that the process is gone. */
  signal(pid: number, signal: string): string | undefined;
  /** As `signal`, for all of a process group. */
  signalGroup(pgid: number, signal: string): string | undefined;
  /**
   * Starts a process as the leader of a session of its own. The pid is undefined when it could not be started and
   * `onNotStarted` will say why; some reasons are thrown at once instead. No callback comes before this returns.
   */
  start(order: StartOrder): number | undefined;
  /** Processor time that our own process has used. */
  cpuMs(): number;
}

export interface SingleLook {
  /** The pids of the machine, ascending: a parent mostly comes before its children. */
  pids(): readonly number[];
  /** The environment that the process was started with, as bytes; empty while an exec is under way, undefined when it is not to be read. */
  environment(pid: number): Buffer | undefined;
}

/** The identity of a running process; undefined when none runs under `pid`. */
export function identityIn(processes: Processes, pid: number): ProcessIdentity | undefined {
  const stat = processes.stat(pid);
  if (stat === undefined || stat.isZombie) return undefined;
  return { bootId: processes.bootId(), pid, started: stat.started };
}

/** Whether the very process still runs. */
export function isAliveIn(processes: Processes, identity: ProcessIdentity): boolean {
  if (identity.bootId !== processes.bootId()) return false;
  const stat = processes.stat(identity.pid);
  return stat !== undefined && !stat.isZombie && stat.started === identity.started;
}
