// Panels of lines, in the page's ink; one cursor for all panels with the same key.
const charts = new Map();

function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  made.append(...children);
  return made;
}

// The largest value, and where that is a peak before the measured interval, the end of the axis (as in the figures).
function limits(x, lines, warmup) {
  let [largest, usual] = [0, 0];
  for (const { y } of lines) {
    y.forEach((value, place) => {
      largest = Math.max(largest, value ?? 0);
      if (x[place] >= warmup) usual = Math.max(usual, value ?? 0);
    });
  }
  return { largest, end: usual > 0 && usual * 1.6 < largest ? usual * 1.6 : Infinity };
}

// Draws `panels` below each other: { title, unit, x, lines: [{ name, y, colour, dash, faint }] }, and where they are wanted
// { label, xLog, yLog }; the time before `warmup` is shaded.
function drawCharts(holder, panels, { key, warmup = 0 }) {
  clearCharts(holder);
  const style = getComputedStyle(document.body);
  const line = { stroke: style.getPropertyValue("--line"), width: 1 };
  const axis = { stroke: style.getPropertyValue("--dim"), grid: line, ticks: line };
  const shade = (chart) => {
    const { left, top, height } = chart.bbox;
    chart.ctx.fillStyle = "rgb(128 128 128 / 0.12)";
    chart.ctx.fillRect(left, top, Math.max(0, chart.valToPos(warmup, "x", true) - left), height);
  };
  const made = panels.map(({ title, unit, x, lines, label = "time (s)", xLog = false, yLog = false }, number) => {
    const place = element("div", null);
    const { largest, end } = limits(x, lines, warmup);
    const heading = element("h3", unit ? `${title} (${unit})` : title);
    if (end < largest) heading.append(element("small", ` peak before: ${numberText(largest)}`));
    holder.append(heading, place);
    const last = number === panels.length - 1;
    const range = yLog ? undefined : (chart, low, high) => {
      const top = chart.scales.x.max > warmup ? Math.min(high, end) : high;
      return [Math.min(0, low), top > 0 ? top * 1.05 : 1];
    };
    const ticks = (_, values) => values.map((value) => (value === null ? "" : value.toLocaleString("en", { maximumFractionDigits: 6 }).replaceAll(",", "\u202f")));
    return new uPlot({
      width: holder.clientWidth,
      height: last ? 190 : 170,
      scales: { x: { time: false, distr: xLog ? 3 : 1 }, y: { distr: yLog ? 3 : 1, range } },
      cursor: { ...(key && { sync: { key } }), drag: { x: true, y: false } },
      hooks: warmup ? { drawClear: [shade] } : {},
      axes: [
        { ...axis, size: 30, ...(xLog && { values: ticks }), ...(last && { label, labelSize: 22 }) },
        { ...axis, size: 58, ...(yLog && { values: ticks }) },
      ],
      series: [{ label }].concat(lines.map(({ name, colour, dash, faint }) => ({
        label: name, width: faint ? 0.8 : 1.3, alpha: faint ? 0.25 : 1, ...(faint && { class: "faint" }), points: { show: false },
        stroke: colour ?? style.color, dash: faint ? [] : dash, spanGaps: xLog,
      }))),
    }, [x].concat(lines.map((one) => one.y)), place);
  });
  charts.set(holder, { made, again: () => drawCharts(holder, panels, { key, warmup }) });
}

function clearCharts(holder) {
  charts.get(holder)?.made.forEach((chart) => { if (chart.cursor.sync) uPlot.sync(chart.cursor.sync.key).unsub(chart); chart.destroy(); });
  charts.delete(holder);
  holder.replaceChildren();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => [...charts.values()].forEach(({ again }) => again()));
addEventListener("resize", () => charts.forEach(({ made }, holder) => {
  made.forEach((chart) => chart.setSize({ width: holder.clientWidth, height: chart.height }));
}));
