/**
 * @file Lint rules: the import table of the rooms, purity of the pure rooms, and a few safety rules.
 *
 * One block per room is generated, because in ESLint's flat config two blocks that match the same
 * file replace each other's options for a rule instead of merging them.
 */
import { builtinModules } from "node:module";
import tseslint from "typescript-eslint";

const LEAVES = ["queue", "placement", "pick", "plan", "inference", "collectives"].map(
  (leaf) => `scheduling/${leaf}`,
);

/** room → rooms it may import (`from`), take types from (`types`), and outside packages it may load. */
const ROOMS = {
  domain: { from: [], packages: ["zod", "yaml", "@dagrejs/graphlib"] },
  lib: { from: [], packages: [] },
  ...Object.fromEntries(LEAVES.map((leaf) => [leaf, { from: ["domain", "lib"], packages: [] }])),
  scheduling: { from: ["domain", "lib"], packages: [] },
  models: { from: ["domain", "lib"], packages: ["onnxruntime-node"] },
  solvers: { from: ["domain", "lib"] },
  simulator: { from: ["domain", "lib", "scheduling"], packages: ["d3-scale", "d3-shape"] },
  workflows: {
    from: ["domain", "lib", "scheduling"],
    types: ["activities"],
    packages: ["@temporalio/workflow", "@temporalio/common"],
  },
  activities: { from: ["domain", "lib", "scheduling", "models", "solvers"], types: ["workflows"] },
  workers: {
    from: ["domain", "lib", "scheduling", "models", "solvers", "simulator", "activities"],
    types: ["workflows"],
  },
  client: { from: ["domain", "lib"], types: ["workflows"] },
};
const TOP = [
  ...new Set([...Object.keys(ROOMS).map((room) => room.split("/")[0]), "cli", "bench", "test"]),
];
const PURE = new Set(["domain", "lib", "scheduling", "simulator", ...LEAVES]);
const BUILTINS = builtinModules.flatMap((name) => [name, `node:${name}`]);

function roomBlock(room) {
  const { from, types = [], packages } = ROOMS[room];
  const isPure = PURE.has(room);
  const shut = TOP.filter(
    (top) => top !== room.split("/")[0] && ![...from, ...types].includes(top),
  );
  const patterns = [
    {
      regex: `^(\\.\\./)+(${shut.join("|")})/`,
      message: `${room}/ may import ${from.join(", ") || "nothing"} only`,
    },
  ];
  const valueOpen =
    room === "client" || room === "activities" || room === "workers" ? "(?!messages\\.ts$)" : "";
  if (types.length > 0) {
    patterns.push({
      regex: `^(\\.\\./)+(${types.join("|")})/${valueOpen}`,
      allowTypeImports: true,
      message: `${room}/ takes types only from ${types.join(", ")}`,
    });
  }
  if (room === "workflows") {
    patterns.push({
      regex: "^(\\.\\./)+scheduling/(?!(apply|ledger|ledger-codec)\\.ts$)",
      message: "workflows/ uses apply and its ledger only; decisions are made in activities",
    });
  }
  if (LEAVES.includes(room)) {
    patterns.push({
      regex: "^\\.\\./(?!\\.\\./)",
      message: "leaves are flat and meet only in scheduling/*.ts",
    });
  }
  if (packages === undefined) {
    patterns.push({ regex: "^onnxruntime", message: "models/ is the only loader of onnxruntime" });
  } else {
    const allowed = packages.map((name) => `${name}(/|$)`).join("|");
    patterns.push({
      regex: `^(?!\\.|node:${allowed === "" ? "" : `|${allowed}`})`,
      message: `${room}/ loads no package but ${packages.join(", ") || "none"}`,
    });
  }
  return {
    files: [room === "scheduling" ? "scheduling/*.ts" : `${room}/**/*.ts`],
    rules: {
      "@typescript-eslint/no-restricted-imports": [
        "error",
        {
          paths:
            isPure || room === "workflows"
              ? BUILTINS.map((name) => ({ name, message: `${room}/ does no I/O` }))
              : [],
          patterns,
        },
      ],
      ...(isPure && {
        "no-restricted-properties": [
          "error",
          { object: "Math", property: "random", message: "take an Rng" },
          { object: "Date", property: "now", message: "take nowMs" },
          {
            property: "localeCompare",
            message: "the order depends on the locale; compare code units",
          },
        ],
        "no-restricted-syntax": [
          "error",
          {
            selector: "NewExpression[callee.name='Date'][arguments.length=0]",
            message: "take nowMs",
          },
        ],
      }),
    },
  };
}

export default tseslint.config(
  { ignores: ["dist/**", "node_modules/**", "data/**"] },
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.base],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/switch-exhaustiveness-check": [
        "error",
        { considerDefaultExhaustiveForUnions: true },
      ],
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/no-non-null-assertion": "error",
      "no-console": "off",
      eqeqeq: "error",
    },
  },
  ...Object.keys(ROOMS).map(roomBlock),
);
