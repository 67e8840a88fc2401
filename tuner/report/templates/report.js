"use strict";
// Draws the charts of #charts, fits them to screen and paper, and sorts tables.
const charts = JSON.parse(document.getElementById("charts").textContent);
const NARROW = 600; // pixels below which labels are placed for a phone
const PAPER = 690; // pixels of the width of a printed page
const COLUMN = 86; // least pixels for a column of a chart that may scroll sideways
const config = {displaylogo: false, responsive: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "toImage"]};

function fitted(chart, width) {
  const isNarrow = width < NARROW;
  const layout = {...chart.layout, width: Math.max(width, (chart.columns || 0) * COLUMN)};
  if (isNarrow && chart.narrow) layout.annotations = chart.narrow;
  if (isNarrow) layout.font = {...layout.font, size: 11};
  return layout;
}

function draw(name, width) {
  const element = document.getElementById(name);
  if (!element) return;
  const room = width || element.parentElement.clientWidth;
  Plotly.react(element, charts[name].data, fitted(charts[name], room), {...config, displayModeBar: room < NARROW ? false : undefined});
}

function drawAll(width) {
  for (const name of Object.keys(charts)) draw(name, width);
}

let last = 0;
function redrawIfResized() {
  const width = document.documentElement.clientWidth;
  if (width !== last) { last = width; drawAll(); }
}
redrawIfResized();
window.addEventListener("resize", redrawIfResized);
window.addEventListener("beforeprint", () => drawAll(PAPER));
window.addEventListener("afterprint", () => drawAll());

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, index) => head.querySelector("button").addEventListener("click", () => {
    const isAscending = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
    const isNumber = head.dataset.sort === "number";
    const value = (row) => row.cells[index].dataset.value;
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      if (!isNumber) return value(a).localeCompare(value(b));
      if (value(a) === "" || value(b) === "") return (value(a) === "") - (value(b) === "");
      return Number(value(a)) - Number(value(b));
    });
    table.tBodies[0].append(...(isAscending ? rows : rows.reverse()));
  }));
}
