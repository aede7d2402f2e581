/**
 * @file Lint rules: purity of the pure rooms, the outside packages that each room may load, and a few safety rules.
 *
 * Which room may import which is held by `test/structure/walls.test.ts`; both read `tools/rooms.mjs`. One block per room is generated,
 * because in ESLint's flat config two blocks that match the same file replace each other's options for a rule instead of merging them.
 */
import { builtinModules } from "node:module";
import tseslint from "typescript-eslint";
import { ROOMS } from "./tools/rooms.mjs";

const BUILTINS = builtinModules.flatMap((name) => [name, `node:${name}`]);

function roomBlock([room, { packages, isPure = false, hasNoNode = isPure }]) {
  const patterns =
    packages === undefined
      ? [{ regex: "^onnxruntime", message: "models/ is the only loader of onnxruntime" }]
      : [
          {
            regex: `^(?!\\.|node:${packages.map((name) => `|${name}(/|$)`).join("")})`,
            message: `${room}/ loads no package but ${packages.join(", ") || "none"}`,
          },
        ];
  return {
    files: [`${room}/**/*.ts`],
    rules: {
      "@typescript-eslint/no-restricted-imports": [
        "error",
        {
          paths: hasNoNode
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
  ...Object.entries(ROOMS).map(roomBlock),
);
