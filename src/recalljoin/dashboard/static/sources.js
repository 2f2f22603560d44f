"use strict";
// The table of sources: all of a few, the furthest behind of many; can be sorted and searched.

const SEARCH_FROM = 11; // with fewer sources than that there is nothing to search
const sorting = { by: "behind", down: true };

const SOURCE_COLUMNS = {
  source: { of: (each) => each.name ?? "", down: false },
  stream: { of: (each) => each.stream ?? "", down: false },
  behind: { of: (each) => each.behind, down: true },
  lag: { of: (each) => each.lag ?? -Infinity, down: true },
};
const inOrder = new Intl.Collator("en", { numeric: true });

function inWords(sources, listed) {
  const n = sources.n, within = sources.within;
  const all = n === 1 ? "One source has a clock" : `${count(n)} sources have a clock`;
  const parts = [sources.others ? `${all} of their own, and all others share one.` : `${all}.`];
  if (within) {
    parts.push(`Half of the sources are at most ${span(within.p50)} behind the slowest stream, `
      + `90 % at most ${span(within.p90)}, 99 % at most ${span(within.p99)}.`);
  }
  if (listed && listed < n) {
    parts.push(`The ${count(listed)} that are furthest behind are listed.`);
  }
  return parts.join(" ");
}

function sorted(rows) {
  const { of } = SOURCE_COLUMNS[sorting.by];
  const way = sorting.down ? -1 : 1;
  const order = (a, b) => typeof a === "string" ? inOrder.compare(a, b) : a - b || 0;
  return [...rows].sort((a, b) => way * order(of(a), of(b)) || b.behind - a.behind
    || inOrder.compare(a.name ?? "", b.name ?? ""));
}

function sourceRow(each, most, isHolder) {
  const line = document.createElement("tr");
  const cells = [each.name ?? "null", each.stream ?? "–", span(each.behind), span(each.lag)];
  for (const text of cells) {
    const cell = document.createElement("td");
    cell.textContent = text;
    line.append(cell);
  }
  if (isHolder) {
    const note = document.createElement("em");
    note.textContent = "the join waits for it";
    line.firstChild.append(" ", note);
    line.className = "is-holder";
  }
  const bar = document.createElement("td"), filled = document.createElement("span");
  bar.className = "bar";
  filled.style.width = `${most > 0 ? 100 * each.behind / most : 0}%`;
  bar.append(filled);
  line.append(bar);
  return line;
}

function showSources(sources) {
  const listed = sources.furthest, wanted = $("find-source").value.trim().toLowerCase();
  $("sources-in-words").textContent = inWords(sources, listed.length);
  $("find").hidden = listed.length < SEARCH_FROM;
  $("all-sources").hidden = !listed.length;
  $("all-sources").classList.toggle("no-lag", !listed.some((each) => known(each.lag)));
  const found = listed.filter((each) => (each.name ?? "null").toLowerCase().includes(wanted));
  const most = Math.max(...listed.map((each) => each.behind), 0);
  const holder = known(sources.held_by) && listed.find((each) =>
    each.name === sources.held_by && each.behind === sources.held_for);
  const rows = sorted(found).map((each) => sourceRow(each, most, each === holder));
  if (!rows.length) {
    const line = document.createElement("tr"), cell = document.createElement("td");
    cell.colSpan = 5;
    cell.textContent = `no source that is listed has “${wanted}” in its name`;
    line.append(cell);
    rows.push(line);
  }
  $("all-sources").querySelector("tbody").replaceChildren(...rows);
  for (const head of $("all-sources").querySelectorAll("th[data-by]")) {
    const way = head.dataset.by !== sorting.by ? "none" : sorting.down ? "descending" : "ascending";
    head.setAttribute("aria-sort", way);
  }
  table("sources", ["source that held the join", "longest", "batches", "last batch"],
    sources.held.map((each) => [each.name, span(each.longest), count(each.batches),
      String(each.last)]), "no source has held the join");
}

function sortSourcesBy(by) {
  const isSame = sorting.by === by;
  sorting.down = isSame ? !sorting.down : SOURCE_COLUMNS[by].down;
  sorting.by = by;
}
