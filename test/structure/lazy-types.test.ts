/** @file Message types that the bundle of the light verbs prepares one by one encode and decode as those of protobufjs do. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";
import type { Root, Type } from "protobufjs";
import { expect, it } from "vitest";

const require = createRequire(import.meta.url);
const lazy = require("../../tools/lazy-types.cjs") as (source: string) => string;
const TYPE = require.resolve("protobufjs/src/type.js");
const MESSAGES = require.resolve("@temporalio/proto/protos/json-module.js");

/** Temporal's message types on a protobufjs of its own, whose `type.js` is read through `change`. */
function messages(change: (source: string) => string): Root {
  const known = new Map<string, { exports: unknown }>();
  const load = (file: string): unknown => {
    const former = known.get(file);
    if (former !== undefined) return former.exports;
    const module = { exports: {} as unknown };
    known.set(file, module);
    const text = readFileSync(file, "utf8");
    const own = createRequire(file);
    const near = (name: string): unknown => {
      if (name.startsWith("protobufjs/")) return load(own.resolve(name));
      if (!name.startsWith(".") || name.endsWith(".json")) return own(name);
      return load(own.resolve(resolve(dirname(file), name)));
    };
    // A module of CommonJS; it comes from our own packages.
    const run = new Function("exports", "require", "module", file === TYPE ? change(text) : text);
    run(module.exports, near, module);
    return module.exports;
  };
  return load(MESSAGES) as Root;
}

/** Without those that cannot be empty. */
function typesOf(root: Root): readonly Type[] {
  const { Type: TypeOf } = require("protobufjs") as { readonly Type: { className: string } };
  const found: Type[] = [];
  const walk = (from: { readonly nestedArray?: readonly unknown[] }): void => {
    for (const each of from.nestedArray ?? []) {
      const type = each as Type;
      if ((type.constructor as { className?: string }).className === TypeOf.className)
        if (type.fieldsArray.every(({ rule }) => rule !== "required")) found.push(type);
      walk(type);
    }
  };
  walk(root);
  return found;
}

/** The text of the two functions, which tells of a type's fields all that the features say. */
const written = (type: Type): readonly string[] => {
  type.encode(type.create()).finish();
  type.decode(new Uint8Array());
  return [type.fullName, type.encode.toString(), type.decode.toString()];
};

it("whichever is used first", () => {
  const want = typesOf(messages((source) => source)).map(written);
  expect(want.length).toBeGreaterThan(500);
  const got = [...typesOf(messages(lazy))].reverse().map(written).reverse();
  expect(got).toEqual(want);
});

it("fields are made of the types alone that somebody looks at, and are then those of protobufjs", () => {
  const root = messages(lazy);
  const made = (name: string): boolean =>
    (root.lookup(name) as unknown as { _json?: object })._json === undefined;
  const payload = root.lookupType("temporal.api.common.v1.Payload");
  payload.encode(payload.create({ data: new Uint8Array([1]) })).finish();
  expect(made("temporal.api.common.v1.Payload")).toBe(true);
  expect(made("temporal.api.common.v1.Memo")).toBe(false);
  expect(root.toJSON()).toEqual(messages((source) => source).toJSON());
});

it("a protobufjs that is written in another way is refused", () => {
  expect(() => lazy("module.exports = class Type {};")).toThrow("another form");
});
