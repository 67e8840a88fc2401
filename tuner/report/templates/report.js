"use strict";
// Draws the figures of #figures, marks the chosen trial in all of them, and sorts tables.
const options = {
  renderer: "svg",
  ast: true, // no eval: the page's policy forbids it
  actions: {export: true, source: false, compiled: false, editor: false},
};
const LEAST = 0.75; // of the natural size
const views = [];
const rows = [...document.querySelectorAll("tr[data-trial]")];

function choose(trial) {
  for (const view of views) view.signal("trial", trial).run();
  for (const row of rows) row.classList.toggle("chosen", Number(row.dataset.trial) === trial);
}

const figures = JSON.parse(document.getElementById("figures").textContent);
for (const [name, figure] of Object.entries(figures)) {
  const element = document.getElementById(name);
  vegaEmbed(element, figure, options).then(({view}) => {
    const drawn = element.querySelector("svg"); // scaled to the page, but never too small to read
    drawn.style.minWidth = `${Math.round(LEAST * drawn.viewBox.baseVal.width)}px`;
    if (!(figure.params || []).some((param) => param.name === "trial")) return;
    views.push(view);
    view.addEventListener("click", (event, item) => choose(item?.datum?.trial ?? null));
  });
}

for (const row of rows) {
  row.addEventListener("click", () => {
    choose(row.classList.contains("chosen") ? null : Number(row.dataset.trial));
  });
}

function compared(a, b, isNumber) {
  if (!isNumber) return a.localeCompare(b);
  if (a === "" || b === "") return (a === "") - (b === ""); // what was not measured stands last
  return Number(a) - Number(b);
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, index) => head.querySelector("button").addEventListener("click", () => {
    const isAscending = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
    const value = (row) => row.cells[index].dataset.value;
    const isNumber = head.dataset.sort === "number";
    const rows = [...table.tBodies[0].rows].sort((a, b) => compared(value(a), value(b), isNumber));
    table.tBodies[0].append(...(isAscending ? rows : rows.reverse()));
  }));
}
