/** @file Requests, leases and hosts of a ledger are of one kind to the engine, whether events made them or a packed ledger did. */
import { setFlagsFromString } from "node:v8";
import { expect, test } from "vitest";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { ask, fleetShape, gpus, inbox, leased, readyLedger } from "../builders.ts";

setFlagsFromString("--allow-natives-syntax");
const haveSameMap = new Function("a", "b", "return %HaveSameMap(a, b)") as (
  a: unknown,
  b: unknown,
) => boolean;

const MADE = inbox(
  leased(
    readyLedger(fleetShape([{ hosts: [{}, {}, {}] }])),
    { job: "a", gpus: 2 },
    gpus(["c0/h0", 1], ["c0/h1", 1]),
  ),
  [ask({ job: "b", gpus: 4 }), ask({ job: "c", gpus: 1 })],
).ledger;

const READ = unpackLedger(
  JSON.parse(JSON.stringify(packLedger(MADE))) as ReturnType<typeof packLedger>,
);

test.each([
  { what: "requests", of: ({ requests }: Ledger) => [...requests.values()] },
  { what: "gangs", of: ({ requests }: Ledger) => [...requests.values()].map(({ gang }) => gang) },
  { what: "leases", of: ({ leases }: Ledger) => [...leases.values()] },
  {
    what: "terms of leases",
    of: ({ leases }: Ledger) => [...leases.values()].map(({ terms }) => terms),
  },
  {
    what: "GPUs of leases",
    of: ({ leases }: Ledger) => [...leases.values()].flatMap((lease) => lease.gpus),
  },
  { what: "hosts", of: ({ hosts }: Ledger) => [...hosts.values()] },
])("all $what with the same fields are of one kind", ({ of }) => {
  const all = [...of(MADE), ...of(READ)];
  expect(all.length).toBeGreaterThan(1);
  expect(all.map((each) => haveSameMap(each, all[0]))).toEqual(all.map(() => true));
});
