/**
 * @file `orbweaver bench NAME`: measures the product and compares each figure with its target; exits with 1 when one is missed.
 */

import { Argument, Option, type Command } from "commander";
import type { Bench, BenchOption, BenchRequest } from "../../../bench/bench.ts";
import { BENCHES } from "../../../bench/registry.ts";
import { documentOf, reportText } from "../../../bench/report.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { wholeNumber } from "../../command/option-values.ts";

const USUAL_SEED = 1;
const BENCH_EXIT_HELP =
  "Exit status: 0 every bar holds, 1 one does not or could not be measured,\n2 wrong usage.";

export const benchVerb = (context: CommandContext): Command => benchVerbOf(context, BENCHES);

/** The verb over these benches; tests supply their own. */
export function benchVerbOf(context: CommandContext, benches: readonly Bench[]): Command {
  const verb = context
    .verb("bench")
    .summary("measure the product")
    .description(
      "Measures the product on this machine and prints each figure beside its target. Both sides of a ratio are measured in the same run.",
    )
    .addHelpText(
      "after",
      helpEnd(
        benches.flatMap(({ examples }) => examples),
        BENCH_EXIT_HELP,
      ),
    );
  for (const bench of benches) verb.addCommand(benchCommand(context, bench));
  return verb;
}

interface CommonValues {
  readonly seed: number;
  readonly plot?: string;
  readonly json?: boolean;
}

type Values = CommonValues & Readonly<Record<string, unknown>>;

function benchCommand(context: CommandContext, bench: Bench): Command {
  const command = context.verb(bench.name).summary(bench.summary).description(bench.description);
  for (const option of bench.options)
    if (option.kind === "argument")
      command.addArgument(new Argument(`<${option.name}>`, option.what).choices(option.choices));
    else command.addOption(optionOf(option));
  command.option("--seed <n>", "seed of all random draws", wholeNumber("--seed", 0), USUAL_SEED);
  if (bench.draws === true) command.option("--plot <dir>", "write figures to this folder");
  return command
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd(bench.examples, BENCH_EXIT_HELP))
    .action(async (...given: readonly unknown[]) => {
      const values = valuesOf(bench, given);
      context.endsByItself();
      const request = requestOf(context, bench, values);
      const document = documentOf(bench, request, await bench.run(request));
      if (values.json === true) context.printJson(document);
      else context.print(reportText(document, widthOf(context.io.stdout)));
      context.exitWith(document.holds ? EXIT.ok : EXIT.failure);
    });
}

/** Commander passes the arguments in their order, then the values of options and the command. */
function valuesOf(bench: Bench, given: readonly unknown[]): Values {
  const names = bench.options.flatMap(({ kind, name }) => (kind === "argument" ? [name] : []));
  const words = Object.fromEntries(names.map((name, at) => [name, given[at]]));
  return { ...words, ...(given.at(-2) as Values) };
}

function optionOf(option: Exclude<BenchOption, { readonly kind: "argument" }>): Option {
  const flag = `--${option.name}`;
  switch (option.kind) {
    case "size":
      return new Option(`${flag} <n>`, option.what)
        .argParser(wholeNumber(flag, option.least))
        .default(option.usual);
    case "flag":
      return new Option(flag, option.what);
    case "text":
      return new Option(`${flag} <${option.value}>`, option.what);
    case "choice":
      return new Option(
        `${flag} <names>`,
        `${option.what}: ${option.choices.join(", ")}`,
      ).argParser(choiceReader(flag, option.choices));
  }
}

function choiceReader(
  flag: string,
  choices: readonly string[],
): (text: string, former?: readonly string[]) => readonly string[] {
  return (text, former = []) => {
    const names = text.split(",").filter((name) => name !== "");
    const unknown = names.find((name) => !choices.includes(name));
    if (unknown !== undefined || names.length === 0) {
      throw new OrbweaverError(
        "BAD_INPUT",
        `${flag} ${JSON.stringify(unknown ?? text)} is none of ${choices.join(", ")}. Write one or several of these with commas between.`,
      );
    }
    return [...former, ...names];
  };
}

function requestOf(context: CommandContext, bench: Bench, values: Values): BenchRequest {
  const { io } = context;
  const valueOf = (name: string, ...kinds: readonly BenchOption["kind"][]): unknown => {
    const isKnown = bench.options.some((each) => each.name === name && kinds.includes(each.kind));
    if (!isKnown) throw new Error(`bench ${bench.name} has no ${kinds.join(" or ")} ${name}`);
    return values[camelCase(name)];
  };
  return {
    seed: values.seed,
    // The option's parser and default give a number, a string, and a list of strings.
    size: (name) => valueOf(name, "size") as number,
    text: (name) => valueOf(name, "text", "argument") as string | undefined,
    flag: (name) => valueOf(name, "flag") === true,
    chosen: (name) =>
      (valueOf(name, "choice") as readonly string[] | undefined) ??
      bench.options.flatMap((option) =>
        option.kind === "choice" && option.name === name ? option.choices : [],
      ),
    ...(values.plot !== undefined && { plotDir: values.plot }),
    say: (line) => context.say(`· ${line}`),
    interrupted: io.interrupted,
    env: io.env,
  };
}

/** Commander's name of the value of `--idle-seconds`. */
const camelCase = (name: string): string =>
  name.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
