/** A controller's health pages, as somebody sees them who scrapes them. */
export type HealthPages = {
  /** Of `livez`, `healthz` or `readyz`. */
  page(name: string): Promise<{ readonly status: number; readonly text: string }>;
  /** The value of one sample, as `runners_troubles{kind="capability"}`; undefined if it is not there. */
  metric(sample: string): Promise<number | undefined>;
};

/** The pages of the controller with these variables. */
export function healthPages(environment: Readonly<Record<string, string>>): HealthPages {
  const page = async (name: string) => {
    const answer = await fetch(`http://${environment["HEALTH_LISTEN"]}/${name}`);
    return { status: answer.status, text: await answer.text() };
  };
  return {
    page,
    metric: async (sample) => {
      const { text } = await page("metrics");
      const line = text.split("\n").find((one) => one.startsWith(`${sample} `));
      return line === undefined ? undefined : Number(line.slice(sample.length + 1));
    },
  };
}
