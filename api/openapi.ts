/** @file The OpenAPI 3.1 document of the submit service, made of its routes; served at /openapi.json. */

import { z } from "zod";
import { FAILURE_CODES } from "../domain/values/codes.ts";
import { FOLDER_PART_BYTES } from "../streams/folder-pack.ts";
import { FOLDER_PATH } from "./folders.ts";
import { nameIn, type Route } from "./route.ts";

const REF_ERROR = { $ref: "#/components/schemas/Error" };

/** `version`: of the package. */
export function openApiDocument(routes: readonly Route[], version: string): object {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes)
    (paths[route.path] ??= {})[route.method.toLowerCase()] = operation(route);
  paths[FOLDER_PATH] = { post: TAKE_PART };
  paths[`${FOLDER_PATH}/{hash}`] = { get: SEND_PART };
  return {
    openapi: "3.1.0",
    info: {
      title: "Orbweaver submit service",
      version,
      description:
        "Jobs of one fleet, for those whom `access` in its fleet file admits. Over a Unix socket the socket says who asks; over TCP a bearer token does, or a client certificate where the service asks for one.",
    },
    security: [{ token: [] }, { certificate: [] }, {}],
    paths,
    components: {
      securitySchemes: {
        token: { type: "http", scheme: "bearer", bearerFormat: "JWT" },
        certificate: { type: "mutualTLS" },
      },
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
  const name = nameIn(path);
  const inPath =
    name === undefined ? [] : [{ name, in: "path", required: true, schema: { type: "string" } }];
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
      ...refusals(REFUSALS),
    },
  };
}

const refusals = (said: Readonly<Record<string, string>>): object =>
  Object.fromEntries(
    Object.entries(said).map(([status, description]) => [
      status,
      { description, content: { "application/json": { schema: REF_ERROR } } },
    ]),
  );

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

const BYTES = {
  "application/octet-stream": { schema: { type: "string", format: "binary" } },
} as const;
const HASH = {
  type: "string",
  pattern: "^[0-9a-f]{64}$",
  description: "SHA-256, in hex.",
} as const;

/** Bodies of bytes come past the routes (`http.ts`). */
const TAKE_PART = {
  operationId: "folder",
  summary: `Takes a part of a packed working folder, of at most ${String(FOLDER_PART_BYTES)} bytes, or the list of its parts (\`{"parts": […]}\`), whose hash a job names.`,
  parameters: [],
  requestBody: { required: true, content: BYTES },
  responses: {
    "200": {
      description: "Kept. What was there already is kept on.",
      content: {
        "application/json": {
          schema: {
            type: "object",
            required: ["hash", "from"],
            properties: {
              hash: HASH,
              from: {
                type: "array",
                items: { type: "string" },
                description: "Where hosts get it, the best place first.",
              },
            },
          },
        },
      },
    },
    ...refusals({
      "401": REFUSALS["401"],
      "403": REFUSALS["403"],
      "413": "The part is too large.",
      "429": REFUSALS["429"],
      "507": "The store of folders is full.",
    }),
  },
} as const;

const SEND_PART = {
  operationId: "folder-part",
  summary: "A part of a working folder. Its name is the right to it, so nobody is asked who it is.",
  security: [{}],
  parameters: [{ name: "hash", in: "path", required: true, schema: HASH }],
  responses: {
    "200": { description: "The part.", content: BYTES },
    "404": { description: "There is no such part." },
  },
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
