/** @file The OpenAPI 3.1 document of the submit service, made of its routes; served at /openapi.json. */

import { z } from "zod";
import { FAILURE_CODES } from "../domain/values/codes.ts";
import type { Route } from "./route.ts";

const REF_ERROR = { $ref: "#/components/schemas/Error" };

/** `version`: of the package. */
export function openApiDocument(routes: readonly Route[], version: string): object {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes)
    (paths[route.path] ??= {})[route.method.toLowerCase()] = operation(route);
  return {
    openapi: "3.1.0",
    info: {
      title: "Orbweaver submit service",
      version,
      description:
        "Jobs of one fleet, for those whom `access` in its fleet file admits. Over a Unix socket the socket says who asks; over TCP a bearer token does.",
    },
    security: [{ token: [] }, {}],
    paths,
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer", bearerFormat: "JWT" } },
      schemas: {
        Error: {
          type: "object",
          required: ["error"],
          properties: {
            error: {
              type: "object",
              required: ["code", "message"],
              properties: {
                code: { type: "string", enum: [...FAILURE_CODES, "INTERNAL"] },
                message: { type: "string" },
                details: {},
              },
            },
          },
        },
      },
    },
  };
}

function operation({ id, summary, path, query, body, isStream }: Route): object {
  const inPath = path.includes("{job}")
    ? [{ name: "job", in: "path", required: true, schema: { type: "string" } }]
    : [];
  const type = isStream === true ? "application/x-ndjson" : "application/json";
  return {
    operationId: id,
    summary,
    parameters: [...inPath, ...queryParameters(query)],
    ...(body !== undefined && {
      requestBody: { required: true, content: { "application/json": { schema: schemaOf(body) } } },
    }),
    responses: {
      "200": { description: "Done.", content: { [type]: { schema: { type: "object" } } } },
      ...Object.fromEntries(
        Object.entries(REFUSALS).map(([status, description]) => [
          status,
          { description, content: { "application/json": { schema: REF_ERROR } } },
        ]),
      ),
    },
  };
}

const REFUSALS = {
  "400": "The request, or the job file in it, is wrong.",
  "401": "Who asks is not known.",
  "403": "Who asks has no right to this.",
  "404": "There is no such job.",
  "409": "The state of the job does not allow this, or its id is taken.",
  "413": "The request is too large.",
  "429": "Who asks has too many requests that are not answered yet.",
  "503": "Temporal, or the fleet, does not answer.",
} as const;

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, object>>;
  readonly required?: readonly string[];
}

function queryParameters(query: z.ZodType | undefined): readonly object[] {
  if (query === undefined) return [];
  const { properties = {}, required = [] }: ObjectSchema = schemaOf(query);
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: "query",
    required: required.includes(name),
    schema,
  }));
}

function schemaOf(schema: z.ZodType): ObjectSchema {
  const { $schema: _dialect, ...json } = z.toJSONSchema(schema, {
    io: "input",
    unrepresentable: "any",
  });
  // An object schema of ours has these members, if any.
  return json as ObjectSchema;
}
