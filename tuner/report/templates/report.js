"use strict";
// Draws the charts of #charts, fits them to screen and paper, and sorts tables.
const charts = JSON.parse(document.getElementById("charts").textContent);
const NARROW = 600; // pixels below which labels are placed for a phone
const PAPER = 690; // pixels of the width of a printed page
const GAP = 28; // pixels between two charts side by side
const COLUMN = 86; // least pixels for a column of a chart that may scroll sideways
const config = {
  displaylogo: false,
  showSendToCloud: false, // the page holds a user's measurements and stays where it is
  plotlyServerURL: "",
  modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
};

function widthOf(element, isPaper) {
  if (!isPaper) return element.parentElement.clientWidth;
  return element.closest(".pair") ? (PAPER - GAP) / 2 : PAPER;
}

function fitted(chart, width, isPaper) {
  const least = isPaper ? 0 : (chart.columns || 0) * COLUMN;
  const layout = {...chart.layout, width: Math.max(width, least)};
  if (width < NARROW) {
    if (chart.narrow) layout.annotations = chart.narrow;
    layout.font = {...layout.font, size: 11};
  }
  if (isPaper && chart.columns * COLUMN > width) {
    layout.xaxis = {...layout.xaxis, tickfont: {size: 7}};
  }
  return layout;
}

function drawAll(isPaper) {
  for (const [name, chart] of Object.entries(charts)) {
    const element = document.getElementById(name);
    const width = widthOf(element, isPaper);
    // Nothing to zoom: the bar would only lie on the names of the axes.
    const isFixed = Boolean(chart.layout.xaxis?.fixedrange && chart.layout.yaxis?.fixedrange);
    const displayModeBar = isPaper || isFixed || width < NARROW ? false : "hover";
    const layout = fitted(chart, width, isPaper);
    Plotly.react(element, chart.data, layout, {...config, displayModeBar});
  }
}

let drawnAt = 0;
function redrawIfResized() {
  const width = document.documentElement.clientWidth;
  if (width !== drawnAt) {
    drawnAt = width;
    drawAll(false);
  }
}
redrawIfResized();
window.addEventListener("resize", redrawIfResized);
window.addEventListener("beforeprint", () => drawAll(true));
window.addEventListener("afterprint", () => drawAll(false));

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
