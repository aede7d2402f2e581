/** @file The JSON Schema of a file schema: what editors complete from, and what remedies are worded from. */

import { z } from "zod";

/** The parts of JSON Schema that are looked at here. */
export interface JsonSchema {
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly required?: readonly string[];
  readonly examples?: readonly unknown[];
}

/**
 * What authors write, not what the parser makes of it. Draft 7 is what the YAML servers of editors know best. Leaves bring their own
 * JSON Schema as metadata, since none can be derived from a function.
 */
export function jsonSchemaOf(schema: z.ZodType): JsonSchema {
  const json = z.toJSONSchema(schema, {
    io: "input",
    target: "draft-7",
    unrepresentable: "any",
    // zod drops the examples of whatever is transformed, lest they show the outcome; ours show what is written.
    override: ({ zodSchema, jsonSchema }) => {
      const examples = metadataOf(zodSchema)?.["examples"];
      if (Array.isArray(examples)) jsonSchema.examples = examples;
    },
  });
  // zod types every member as "a schema or true or false or undefined"; ours have none of the latter three.
  return json as JsonSchema;
}

/** Its own, or that of the schema that it begins with: `.optional()` and `.transform()` wrap, and carry none. */
function metadataOf(schema: z.core.$ZodType): Readonly<Record<string, unknown>> | undefined {
  const own = z.globalRegistry.get(schema);
  if (own !== undefined) return own;
  if (schema instanceof z.core.$ZodOptional) return metadataOf(schema._zod.def.innerType);
  if (schema instanceof z.core.$ZodPipe) return metadataOf(schema._zod.def.in);
  return undefined;
}
