/**
 * @file Builds `dist/`: compiles the sources, makes the workflow bundle that every worker runs, the programs that start from one file, and the console's page.
 *
 * Skips what is newer than its inputs, so that a second call costs a fraction of a second.
 */

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { bundlePrograms, LOADERS, sourcesUnder } from "./bundle-programs.mjs";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const ROOMS = [
  "domain",
  "lib",
  "scheduling",
  "planning",
  "tuning",
  "protocol",
  "machines",
  "agent",
  "streams",
  "models",
  "solvers",
  "simulator",
  "world",
  "workflows",
  "activities",
  "workers",
  "access",
  "client",
  "console",
  "api",
  "cli",
  "bench",
];
/**
 * What is loaded once for all workflows of a worker and not once for each: the machines with all that they import, which hold no state of a
 * run, and the one module of the sandbox that all runs of a thread share.
 */
const preloaded = () => [
  ...sourcesUnder(path.join(ROOT, "machines")).map((file) =>
    path.relative(ROOT, file).replace(/\.ts$/, ".js"),
  ),
  "workflows/runtime/task-age.js",
];

export async function build({ say = () => {} } = {}) {
  for (const name of Object.keys(PROGRAMS)) buildProgram(name, say);
  const stamp = inputStamp();
  const stampFile = path.join(ROOT, "dist", ".stamp");
  if (existsSync(stampFile) && readFileSync(stampFile, "utf8") === stamp) return;
  say("compiling");
  removeOrphans();
  const tsc = spawnSync(
    process.execPath,
    [
      path.join(ROOT, "node_modules/typescript/bin/tsc"),
      "-p",
      path.join(ROOT, "tsconfig.build.json"),
    ],
    {
      stdio: ["ignore", "pipe", "inherit"],
      encoding: "utf8",
    },
  );
  if (tsc.status !== 0) throw new Error(`the sources do not compile:\n${tsc.stdout}`);
  const main = path.join(ROOT, "dist/cli/main.js");
  if (existsSync(main)) chmodSync(main, 0o755);
  say("bundling the workflows");
  const { bundleWorkflowCode } = await import(
    pathToFileURL(path.join(ROOT, "node_modules/@temporalio/worker/lib/index.js")).href
  );
  const { code } = await bundleWorkflowCode({
    workflowsPath: path.join(ROOT, "dist/workflows/index.js"),
    payloadConverterPath: path.join(ROOT, "dist/workflows/runtime/payload-converter.js"),
    failureConverterPath: path.join(ROOT, "dist/workflows/runtime/failure-converter.js"),
    workflowInterceptorModules: [
      // The guard judges an activation before its signals are taken off.
      path.join(ROOT, "dist/workflows/runtime/activation-guard.js"),
      path.join(ROOT, "dist/workflows/runtime/sealed-run.js"),
      path.join(ROOT, "dist/workflows/runtime/signal-intake.js"),
      path.join(ROOT, "dist/workflows/runtime/checked-input.js"),
    ],
    preloadModules: preloaded().map((file) => path.join(ROOT, "dist", file)),
    // Stacks name files and lines. With columns and the sources themselves the map was two thirds of the file, which each worker reads twice.
    webpackConfigHook: (config) => ({
      ...config,
      devtool: "inline-nosources-cheap-module-source-map",
    }),
    logger: quietLogger(),
  });
  mkdirSync(path.join(ROOT, "dist"), { recursive: true });
  writeFileSync(path.join(ROOT, "dist/workflow-bundle.js"), inAscii(withOwnGlobals(code)));
  say("bundling the programs");
  await bundlePrograms();
  await bundlePage();
  writeFileSync(stampFile, stamp);
}

/** What was made of sources that are gone would be packed, and found by whoever imports it. What the later steps make of many sources they make again. */
function removeOrphans() {
  const made = /(\.d)?\.(c?)[jt]s(\.map|\.code)?$/;
  for (const room of [...ROOMS, "page"])
    for (const file of sourcesUnder(path.join(ROOT, "dist", room), made)) {
      const source = path.join(ROOT, path.relative(path.join(ROOT, "dist"), file));
      if (!existsSync(source.replace(made, ".$2ts"))) rmSync(file);
    }
}

/**
 * The programs in C, where there is a compiler. The native supervisor is static, so that nothing of a job's environment is looked at before its program; the
 * shim in Node does its work where there is none. The program that asks NVML loads the driver's library; `nvidia-smi` is asked where there is none.
 */
const PROGRAMS = {
  supervisor: {
    folder: "agent/native",
    flags: ["-static"],
    libraries: [],
    without: "no native supervisor, launches take the one in Node",
  },
  nvml: {
    folder: "agent/nvml",
    flags: [],
    libraries: ["-ldl"],
    without: "NVML is not asked, nvidia-smi alone is",
  },
};

/** Beside the stamp, because a compiler may come later than the build. */
function buildProgram(name, say) {
  if (process.platform !== "linux") return;
  const folder = path.join(ROOT, PROGRAMS[name].folder);
  // This file has the flags of the compiler.
  const sources = [
    ...readdirSync(folder).map((file) => path.join(folder, file)),
    fileURLToPath(import.meta.url),
  ];
  const out = path.join(ROOT, "dist/agent/native", `${name}-linux-${process.arch}`);
  const builtAt = existsSync(out) ? statSync(out).mtimeMs : 0;
  if (sources.every((file) => statSync(file).mtimeMs < builtAt)) return;
  mkdirSync(path.dirname(out), { recursive: true });
  const aside = `${out}.${process.pid}`;
  const done = compileProgram(name, aside);
  // An agent may be running the old one.
  if (done.status === 0) renameSync(aside, out);
  else {
    // One of older sources would be taken for the present one.
    rmSync(out, { force: true });
    const why = done.error === undefined ? done.stderr.trim() : "no C compiler (cc)";
    say(`${PROGRAMS[name].without}: ${why}`);
  }
}

/** The result of the compiler, `error` where there is none. */
export function compileProgram(name, out) {
  const { flags, libraries } = PROGRAMS[name];
  const folder = path.join(ROOT, PROGRAMS[name].folder);
  const sources = readdirSync(folder).filter((file) => file.endsWith(".c"));
  return spawnSync(
    "cc",
    [
      ...flags,
      ...["-O2", "-std=c17", "-Wall", "-Wextra", "-Werror", "-fstack-protector-strong"],
      ...["-s", "-o", out, ...sources.sort().map((file) => path.join(folder, file))],
      ...libraries,
    ],
    { encoding: "utf8" },
  );
}

/** A character beyond ASCII, in a string or a comment, would double the memory of the whole text. */
const inAscii = (code) =>
  code.replace(/[^\x00-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

/**
 * In the sandbox of workflows each look at a global asks an interceptor, a tenth of a microsecond or more: loops that call `Math.min` took twenty times
 * as long. So the bundle looks once, on its first line, which leaves the lines of the source map where they are. Nothing that the SDK replaces or
 * forbids in a workflow is among these names (`Math.random` is replaced inside `Math`).
 *
 * `Error` is one of them for another reason. For each promise the SDK makes an error of the sandbox's global `Error`, and notes its stack in the words of
 * the sources, for the query `__stack_trace`: a third of the time of a job's tasks. It finds a class without a stack there and notes nothing. What the
 * bundle throws, and what the engine does, keeps its stack. The SDK freezes what all runs of a thread share by the names of the globals, so the true
 * `Error` is frozen here.
 */
function withOwnGlobals(code) {
  const start = "(() => { // webpackBootstrap";
  if (!code.includes(start))
    throw new Error("the bundle of the workflows does not begin as expected");
  const names =
    "Array, BigInt, Boolean, Error, JSON, Map, Math, Number, Object, Reflect, Set, String, Symbol";
  return code.replace(
    start,
    `(() => { const { ${names} } = globalThis, Infinity = 1 / 0, NaN = 0 / 0; Object.freeze(Error); globalThis.Error = class {}; // webpackBootstrap`,
  );
}

/** The page of the console: one script, checked against the browser's types, and the files beside it. */
async function bundlePage() {
  const checked = spawnSync(
    process.execPath,
    [path.join(ROOT, "node_modules/typescript/bin/tsc"), "-p", path.join(ROOT, "page")],
    { stdio: ["ignore", "pipe", "inherit"], encoding: "utf8" },
  );
  if (checked.status !== 0) throw new Error(`the page does not compile:\n${checked.stdout}`);
  const near = createRequire(path.join(ROOT, "node_modules/@temporalio/worker/lib/index.js"));
  const compiler = near("webpack")({
    mode: "production",
    target: ["web", "es2022"],
    entry: path.join(ROOT, "page/main.ts"),
    output: { path: path.join(ROOT, "dist/page"), filename: "page.js" },
    module: {
      rules: [
        {
          test: /\.ts$/,
          loader: near.resolve("swc-loader"),
          options: {
            jsc: { parser: { syntax: "typescript" }, target: "es2022" },
            sourceMaps: false,
          },
        },
      ],
    },
    performance: { hints: false },
  });
  const stats = await promisify(compiler.run.bind(compiler))();
  await promisify(compiler.close.bind(compiler))();
  if (stats.hasErrors()) throw new Error(stats.toString({ all: false, errors: true }));
  for (const file of ["index.html", "page.css", "icon.svg"])
    copyFileSync(path.join(ROOT, "page/static", file), path.join(ROOT, "dist/page", file));
}

/** Changes whenever a source, a setting or an installed version changes. */
function inputStamp() {
  const hash = createHash("sha256");
  const files = [...ROOMS, "page"].flatMap((room) => sourcesUnder(path.join(ROOT, room)));
  for (const file of [
    ...files,
    path.join(ROOT, "tsconfig.json"),
    path.join(ROOT, "tsconfig.build.json"),
    path.join(ROOT, "package.json"),
    path.join(ROOT, "package-lock.json"),
    fileURLToPath(import.meta.url),
    path.join(ROOT, "tools/bundle-programs.mjs"),
    path.join(ROOT, "tools/no-bundler.cjs"),
    ...LOADERS,
  ].sort()) {
    hash.update(path.relative(ROOT, file)).update(readFileSync(file));
  }
  return hash.digest("hex");
}

function quietLogger() {
  const say = (level) => (message) =>
    (level === "error" || level === "warn") && process.stderr.write(`${message}\n`);
  return {
    log: (level, message) => say(level.toLowerCase())(message),
    trace: say("trace"),
    debug: say("debug"),
    info: say("info"),
    warn: say("warn"),
    error: say("error"),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await build({ say: (what) => process.stderr.write(`${what}\n`) });
}
