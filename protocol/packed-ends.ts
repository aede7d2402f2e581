/**
 * @file The ends of a batch's tasks as columns, in the order in which the batch names them: some ten bytes a task where each end alone has eighty.
 *
 * An array of a million tasks is one history, which Temporal ends at 50 MB. Ends, exit codes and signals are runs of equal values; times are
 * differences, in milliseconds. The plain numbers stay readable in Temporal's UI. Messages are what is large, so the workflow says of how many
 * tasks it has room for them (`TaskBatch.mostTexts`); the output itself stays on the host. Cost: O(tasks).
 */

import type { PackedEnds, TaskEnd, ValueRun } from "./agent-contract.ts";

/** A task that ended without a start has no time of its end here: none has one. */
export function packEnds(ends: readonly TaskEnd[], mostTexts: number): PackedEnds {
  let lastMs = 0;
  const starts = ends.map(({ startedAtMs }) => {
    if (startedAtMs === undefined) return null;
    const sinceMs = startedAtMs - lastMs;
    lastMs = startedAtMs;
    return sinceMs;
  });
  return {
    ends: runsOf(ends.map(({ end }) => end)),
    exitCodes: runsOf(ends.map(({ exitCode }) => exitCode ?? null)),
    signals: runsOf(ends.map(({ signal }) => signal ?? null)),
    starts,
    ranMs: ends.map(({ startedAtMs, endedAtMs }) =>
      startedAtMs === undefined || endedAtMs === undefined ? null : endedAtMs - startedAtMs,
    ),
    texts: ends
      .flatMap(({ message }, at) => (message === undefined ? [] : [{ at, message }]))
      .slice(0, mostTexts),
  };
}

/** The ends of these tasks of the batch, in its order; a task beyond the columns has none. */
export function unpackEnds(tasks: readonly number[], packed: PackedEnds): readonly TaskEnd[] {
  const ends = valuesOf(packed.ends, tasks.length);
  const exitCodes = valuesOf(packed.exitCodes, tasks.length);
  const signals = valuesOf(packed.signals, tasks.length);
  const messages = new Map(packed.texts.map(({ at, message }) => [at, message]));
  let lastMs = 0;
  return tasks.flatMap((task, at): readonly TaskEnd[] => {
    const sinceMs = packed.starts[at] ?? undefined;
    const startedAtMs = sinceMs === undefined ? undefined : lastMs + sinceMs;
    lastMs = startedAtMs ?? lastMs;
    const end = ends[at];
    if (end === undefined) return [];
    const ranMs = packed.ranMs[at] ?? undefined;
    const exitCode = exitCodes[at] ?? undefined;
    const signal = signals[at] ?? undefined;
    const message = messages.get(at);
    return [
      {
        task,
        end,
        ...(startedAtMs !== undefined && { startedAtMs }),
        ...(startedAtMs !== undefined && ranMs !== undefined && { endedAtMs: startedAtMs + ranMs }),
        ...(exitCode !== undefined && { exitCode }),
        ...(signal !== undefined && { signal }),
        ...(message !== undefined && { message }),
      },
    ];
  });
}

function runsOf<Value>(values: readonly Value[]): readonly ValueRun<Value>[] {
  const runs: [Value, number][] = [];
  for (const value of values) {
    const last = runs.at(-1);
    if (last !== undefined && last[0] === value) last[1] += 1;
    else runs.push([value, 1]);
  }
  return runs;
}

/** No more than `most`, whatever the runs say. */
function valuesOf<Value>(runs: readonly ValueRun<Value>[], most: number): readonly Value[] {
  const values: Value[] = [];
  for (const [value, count] of runs)
    for (let each = 0; each < count && values.length < most; each += 1) values.push(value);
  return values;
}
