/** @file The server's own count of the calls that it was asked to answer, by operation, from its Prometheus metrics. */

export type Calls = ReadonlyMap<string, number>;

const LINE = /^service_requests\{([^}]*)\} ([0-9.e+]+)$/;

/** Calls to the frontend about this namespace: what clients, workers and agents ask, long polls included. */
export async function callsNow(metricsUrl: string, namespace: string): Promise<Calls> {
  const answer = await fetch(metricsUrl);
  if (!answer.ok) throw new Error(`${metricsUrl} answers ${String(answer.status)}`);
  return readCalls(await answer.text(), namespace);
}

export function readCalls(metrics: string, namespace: string): Calls {
  const calls = new Map<string, number>();
  for (const line of metrics.split("\n")) {
    const match = LINE.exec(line);
    if (match === null) continue;
    const [, labels = "", value = ""] = match;
    if (labelOf(labels, "service_name") !== "frontend") continue;
    if (labelOf(labels, "namespace") !== namespace) continue;
    const operation = labelOf(labels, "operation") ?? "unknown";
    calls.set(operation, (calls.get(operation) ?? 0) + Number(value));
  }
  return calls;
}

/** What was asked since `before`. */
export function callsSince(before: Calls, after: Calls): Calls {
  return new Map(
    [...after].flatMap(([operation, count]) => {
      const more = count - (before.get(operation) ?? 0);
      return more > 0 ? [[operation, more] as const] : [];
    }),
  );
}

export const totalOf = (calls: Calls): number =>
  [...calls.values()].reduce((sum, count) => sum + count, 0);

const labelOf = (labels: string, name: string): string | undefined =>
  new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1];
