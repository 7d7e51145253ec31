import { eventTypes } from "../../controller/assignment/event.ts";
import { cellOf, type Machine } from "../../controller/assignment/machine.ts";
import { type PhaseName, phaseNames } from "../../controller/assignment/record.ts";

/** The machine as two Markdown tables: where each event leads in each phase, and the rules by which one is ignored. */
export function machineTable(machine: Machine): string {
  const rules = new Map<string, string>();
  const numberOf = (rule: string): string => {
    const known = rules.get(rule) ?? String(rules.size + 1);
    rules.set(rule, known);
    return known;
  };
  const cell = (phase: PhaseName, type: (typeof eventTypes)[number]): string => {
    const found = cellOf(machine, phase, type);
    if ("ignored" in found) return numberOf(found.ignored);
    const targets = found.to.map((to) => (to === phase ? "stays" : `**${to}**`));
    return targets.length === 0 ? "never" : targets.join(", ");
  };
  const rows = eventTypes.map((type) => [`\`${type}\``, ...phaseNames.map((phase) => cell(phase, type))]);
  return [
    markdownTable(["event", ...phaseNames], rows),
    markdownTable(
      ["", "ignored, because"],
      [...rules].map(([rule, number]) => [number, rule]),
    ),
  ].join("\n\n");
}

/** Columns as wide as their longest cell, as the formatter wants them. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]) =>
    `| ${widths.map((width, column) => (cells[column] ?? "").padEnd(width)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}
