const begin = "<!-- made by `npm run gen:machine` -->";
const end = "<!-- until here -->";

/** The page with what is made put between its two marks; throws if they are not there. */
export function placed(page: string, made: string): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from === -1 || to < from) throw new Error(`the page lacks ${begin} … ${end}`);
  return `${page.slice(0, from)}${begin}\n\n${made}\n\n${page.slice(to)}`;
}
