/** @file The JSON Schema of a file schema: the source of completion in editors and of remedies. */

import { z } from "zod";

/** The used parts of JSON Schema. */
export interface JsonSchema {
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly required?: readonly string[];
  readonly examples?: readonly unknown[];
}

/**
 * Describes the written form, not the parsed one. Draft 7 is best supported by the YAML servers of editors. Leaves carry their
 * own JSON Schema as metadata, since none can be derived from a function.
 */
export function jsonSchemaOf(schema: z.ZodType): JsonSchema {
  const json = z.toJSONSchema(schema, {
    io: "input",
    target: "draft-7",
    unrepresentable: "any",
    // zod drops the examples of transformed schemas, because they could show the output; ours show the written form.
    override: ({ zodSchema, jsonSchema }) => {
      const examples = metadataOf(zodSchema)?.["examples"];
      if (Array.isArray(examples)) jsonSchema.examples = examples;
    },
  });
  // zod types every member as "a schema or true or false or undefined"; ours are always schemas.
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
