/** @file A training step as the flow simulation plays it, and the world of its flows. Imports nothing of the planner. */

export interface SimulatedHost {
  readonly cluster: string;
  readonly hasNvlink: boolean;
  readonly insideGbs: number;
  readonly insideMs: number;
}

export interface Wire {
  readonly gbs: number;
  readonly latencyMs: number;
}

export interface SimulatedStep {
  readonly hosts: readonly SimulatedHost[];
  readonly fabric: (cluster: string) => Wire;
  readonly between: (from: string, to: string) => Wire;
  readonly stages: number;
  readonly replicas: number;
  readonly width: number;
  readonly microBatches: number;
  /** Host of cell stage × replicas + replica. */
  readonly cellHosts: readonly number[];
  /** Of layers, of each stage: run r of stage j is number r × stages + j of all. */
  readonly runs: number;
  /** Of a micro-batch in a run on a host. */
  readonly forwardMs: (run: number, host: number) => number;
  readonly backwardMs: (run: number, host: number) => number;
  /** Behind each run, of a micro-batch. */
  readonly sendBytes: readonly number[];
  /** Over each edge of a stage's ring. */
  readonly ringBytes: readonly number[];
  /** How often each half of a ring's work goes around, for its latency. */
  readonly ringRounds: number;
  /** Replicas in a row that share out each sequence; 1 where none do. By run: over each edge of their ring in a micro-batch, and how often something is handed on. */
  readonly contexts: number;
  readonly keyValues: readonly {
    readonly forward: number;
    readonly backward: number;
    readonly calls: number;
  }[];
  /** Replicas in a row that share out experts; 1 where none do. */
  readonly experts: number;
  /** By run: a unit's bytes to each other of its group in a micro-batch, and how often something is exchanged in a forward pass. */
  readonly exchanges: readonly {
    readonly forward: number;
    readonly backward: number;
    readonly calls: number;
  }[];
  /** Of the experts that a replica has, over each edge of their ring but for (k − 1)/k. */
  readonly expertBytes: readonly number[];
  /** Each way between the first and the last stage of a replica. */
  readonly tiedBytes: number;
}

export interface Path {
  readonly links: readonly number[];
  readonly latencyMs: number;
}

export interface Wires {
  readonly gbs: (link: number) => number;
  readonly path: (fromCell: number, toCell: number) => Path;
}

export interface World {
  readonly wires: Wires;
  readonly after: (ms: number, run: () => void) => void;
  readonly send: (path: Path, bytes: number, done: () => void) => void;
}
