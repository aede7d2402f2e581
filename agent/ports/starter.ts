/** @file Starts native supervisors without a fork of the agent, as the agent's logic sees it. */

export interface SupervisorStart {
  /** The folder of the launch, where the supervisor runs. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A file to which its output is appended. */
  readonly output: string;
  /** Called once: the supervisor has ended or did not start, nobody will tell, or the starter does not take the request. */
  onEnd(): void;
}

export interface Starter {
  /** Undefined where it could not be started. */
  readonly pid: number | undefined;
  /** False where it takes none, also while it leaves a request untaken; `onEnd` is not called then. */
  start(order: SupervisorStart): boolean;
}
