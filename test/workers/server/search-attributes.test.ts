import { expect, test } from "vitest";
import type { SearchAttribute } from "../../../domain/values/search-attributes.ts";
import { ensureSearchAttributes } from "../../../workers/server/index.ts";
import type { OperatorConnection } from "../../../workers/server/search-attributes.ts";

const WANTED: readonly SearchAttribute[] = [
  { name: "Class", type: "Keyword" },
  { name: "Tenant", type: "Keyword" },
  { name: "Gpus", type: "Int" },
];
const KEYWORD = 2;
const INT = 3;

function grpcError(code: number, details: string): Error {
  return Object.assign(new Error(details), { code, details, metadata: {} });
}

interface FakeOperator {
  /** The answers to each listing, in order. */
  readonly lists: readonly (Readonly<Record<string, number>> | Error)[];
  readonly addFails?: Error;
  /** How the server answers a query that names the attributes. */
  readonly countFails?: Error;
}

function fakeConnection(fake: FakeOperator): {
  readonly connection: OperatorConnection;
  readonly added: Readonly<Record<string, number>>[];
} {
  const lists = [...fake.lists];
  const added: Readonly<Record<string, number>>[] = [];
  const operatorService = {
    listSearchAttributes: () => {
      const next = lists.shift();
      if (next === undefined) throw new Error("listed more often than expected");
      return next instanceof Error
        ? Promise.reject(next)
        : Promise.resolve({ customAttributes: next });
    },
    addSearchAttributes: (request: { searchAttributes: Record<string, number> }) => {
      if (fake.addFails !== undefined) return Promise.reject(fake.addFails);
      added.push(request.searchAttributes);
      return Promise.resolve({});
    },
  };
  const workflowService = {
    countWorkflowExecutions: () =>
      fake.countFails === undefined ? Promise.resolve({}) : Promise.reject(fake.countFails),
  };
  // The generated services have overloads and a base class that no fake can show.
  const connection = { operatorService, workflowService } as unknown as OperatorConnection;
  return { connection, added };
}

test("what is there already is left alone", async () => {
  const fake = fakeConnection({ lists: [{ Class: KEYWORD, Tenant: KEYWORD, Gpus: INT, Mine: 1 }] });
  expect(await ensureSearchAttributes(fake.connection, "lab", WANTED)).toEqual([]);
  expect(fake.added).toEqual([]);
});

test("only what is missing is added", async () => {
  const fake = fakeConnection({ lists: [{ Class: KEYWORD }] });
  expect(await ensureSearchAttributes(fake.connection, "lab", WANTED)).toEqual(["Tenant", "Gpus"]);
  expect(fake.added).toEqual([{ Tenant: KEYWORD, Gpus: INT }]);
});

test("another worker that adds them first is no failure", async () => {
  const fake = fakeConnection({
    lists: [{}, { Class: KEYWORD, Tenant: KEYWORD, Gpus: INT }],
    addFails: grpcError(6, "already exists"),
  });
  await expect(ensureSearchAttributes(fake.connection, "lab", WANTED)).resolves.toBeDefined();
});

test("who may not add them gets the exact commands, one a type", async () => {
  const { connection } = fakeConnection({ lists: [{}, {}], addFails: grpcError(7, "no rights") });
  const failure: unknown = await ensureSearchAttributes(connection, "lab", WANTED).catch(
    (error: unknown) => error,
  );
  expect(failure).toMatchObject({
    type: "SEARCH_ATTRIBUTES_MISSING",
    nonRetryable: true,
    details: [{ namespace: "lab", missing: ["Class", "Tenant", "Gpus"] }],
  });
  const commands = String(failure)
    .split("\n")
    .filter((line) => line.startsWith("  temporal "));
  expect(commands).toEqual([
    "  temporal operator search-attribute create --namespace lab --name Class --name Tenant --type Keyword",
    "  temporal operator search-attribute create --namespace lab --name Gpus --type Int",
  ]);
});

test("a server that does not answer is not mistaken for one that refuses", async () => {
  const { connection } = fakeConnection({ lists: [grpcError(14, "unavailable")] });
  await expect(ensureSearchAttributes(connection, "lab", WANTED)).rejects.toMatchObject({
    code: 14,
  });
});

test("an attribute of another type is refused with both types", async () => {
  const { connection } = fakeConnection({ lists: [{ Class: INT }] });
  await expect(ensureSearchAttributes(connection, "lab", WANTED)).rejects.toThrow(
    /Class with type Int, jobs need Keyword/,
  );
});

test("where the list is closed, attributes that can be asked for are there", async () => {
  const { connection } = fakeConnection({ lists: [grpcError(12, "not here")] });
  expect(await ensureSearchAttributes(connection, "cloud", WANTED)).toEqual([]);
});

test("where the list is closed and a query does not know them, they are refused with the commands", async () => {
  const { connection } = fakeConnection({
    lists: [grpcError(7, "no rights")],
    countFails: grpcError(3, "unknown attribute"),
  });
  await expect(ensureSearchAttributes(connection, "cloud", WANTED)).rejects.toMatchObject({
    type: "SEARCH_ATTRIBUTES_MISSING",
  });
});
