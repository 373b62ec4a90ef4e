"use strict";
for (const button of document.querySelectorAll("button.save")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const svg = button.closest("figure").querySelector("svg");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }));
    link.download = button.dataset.name + ".svg";
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

(() => {
  const data = JSON.parse(document.getElementById("series").textContent);
  const section = document.querySelector('section[aria-labelledby="explore"]');
  if (!data.runs.length) {
    section.hidden = true;
    document.querySelector('nav a[href="#explore"]').hidden = true;
    return;
  }
  const explorer = document.getElementById("explorer");
  const charts = document.getElementById("charts");
  const caseSelect = document.getElementById("case");
  const trialSelect = document.getElementById("trial");
  explorer.hidden = false;
  if (data.omitted) {
    const omitted = document.getElementById("omitted");
    omitted.hidden = false;
    omitted.textContent = data.omitted + " more runs are in series.parquet.";
  }

  const sync = uPlot.sync("time");
  let shown = [];

  function option(select, value, text) {
    const item = document.createElement("option");
    item.value = value;
    item.textContent = text;
    select.append(item);
  }

  function draw() {
    const run = data.runs[Number(trialSelect.value)];
    const style = getComputedStyle(document.body);
    const axis = { stroke: style.getPropertyValue("--dim"), grid: { stroke: style.getPropertyValue("--line"), width: 1 },
                   ticks: { stroke: style.getPropertyValue("--line"), width: 1 } };
    shown.forEach((chart) => { sync.unsub(chart); chart.destroy(); });
    charts.replaceChildren();
    shown = run.panels.map((panel, number) => {
      const holder = document.createElement("div");
      const title = document.createElement("h3");
      title.textContent = `${panel.title} (${panel.unit})`;
      charts.append(title, holder);
      const last = number === run.panels.length - 1;
      return new uPlot({
        width: charts.clientWidth,
        height: last ? 190 : 170,
        scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
        cursor: { sync: { key: sync.key }, drag: { x: true, y: false } },
        axes: [{ ...axis, size: 30, ...(last && { label: "time (s)", labelSize: 22 }) }, { ...axis, size: 58 }],
        series: [{ label: "time (s)" }].concat(panel.lines.map((line) => ({
          label: line.name, stroke: line.colour || style.getPropertyValue("--text"), dash: line.dash, width: 1.3,
          points: { show: false },
        }))),
      }, [run.time].concat(panel.lines.map((line) => line.y)), holder);
    });
  }

  function chooseTrial() {
    trialSelect.replaceChildren();
    data.runs.forEach((run, number) => {
      if (run.case === caseSelect.value) {
        option(trialSelect, number, run.trial + (run.median ? " (median)" : ""));
        if (run.median) trialSelect.value = number;
      }
    });
    draw();
  }

  new Set(data.runs.map((run) => run.case)).forEach((name) => option(caseSelect, name, name));
  caseSelect.addEventListener("change", chooseTrial);
  trialSelect.addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", () => shown.forEach((chart) => chart.setSize({ width: charts.clientWidth, height: chart.height })));
  chooseTrial();
})();
